"""Published configurations of experts beside the planner's own answers to the same questions.

    python3 tests/bench/experts.py [--headroom PROGRAM] [--json FILE] [--time-limit TIME] [NAME...]

Every entry of experts.json has a question (model, GPUs, batch, number formats) and what the experts decided. The
planner answers twice: with the experts' decisions given, and free. Printed is a table in Markdown: the step that was
measured, the step that is predicted for the experts' plan, its chance to fit, the best plan's step, what that plan does
otherwise, and the CPU time of the free search. NAME: only entries whose name contains it. TIME: a limit of each free
search, such as 60s; what it has not proven by then has its gap beside the step.
"""
import argparse
import json
import pathlib
import resource
import shlex
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
# What two plans of one question can differ in; the other keys of a plan are the question's, or follow from these.
COMPARED = ("micro_batch", "checkpointing", "attention")
QUIET = ("mask_in_dataloader", "cross_entropy_fusion", "attention", "cp_comm_type", "permute_fusion")


def answer(headroom, arguments):
    """(document, message, CPU seconds) of `headroom plan`; the document is None if it has no plan."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([headroom, "plan", *shlex.split(arguments), "--json"], capture_output=True, text=True,
                          check=False)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    document = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    found = document if document.get("plan") else None
    return found, document.get("status") or done.stderr.strip().partition("\n")[0], seconds


def step_of(document):
    return document["estimate"]["replayed_step_seconds"]


def chance_of(document):
    return document["estimate"]["fits_probability"]


def decisions(plan):
    """What is decided in a plan: {name: value}."""
    found = {key: plan[key] for key in COMPARED}
    found["framework"] = plan["runtime"]
    for part in ("megatron", "titan", "fsdp", "zero"):
        for key, value in (plan.get(part) or {}).items():
            if key not in QUIET:
                found[key] = value
    return found


def changes(expert, best):
    """The decisions of `best`, a plan of the same framework, that are not those of `expert`, in words."""
    before, after = decisions(expert), decisions(best)
    keys = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    return ", ".join(f"{key} {before.get(key, '-')} → {after.get(key, '-')}" for key in keys)


def compared(expert, best):
    """What the best plan decides otherwise. If it is another framework's: its summary, and what the best plan of the
    experts' own framework decides otherwise."""
    own = expert["plan"]["runtime"]
    if best["plan"]["runtime"] == own:
        return changes(expert["plan"], best["plan"])
    text = best["summary"]
    for each in best["frameworks"]:
        if each["framework"] == own and each.get("plan"):
            gain = 100 * (step_of(expert) / each["step_seconds"] - 1)
            text += f"; {own} itself ({each['status']}) {gain:+.1f} %: {changes(expert['plan'], each['plan'])}"
    return text


def entry(headroom, asked, limit):
    """A row of the table, as a dictionary."""
    expert, trouble, _ = answer(headroom, f"{asked['question']} {asked['expert']} {limit}")
    best, status, seconds = answer(headroom, f"{asked['question']} {limit}")
    row = {"name": asked["name"], "measured": asked["measured_seconds"], "expert": None, "best": None,
           "seconds": seconds, "status": status, "trouble": None if expert else trouble}
    if expert:
        row.update(expert=step_of(expert), chance=chance_of(expert), peak=expert["estimate"]["peak_reserved_bytes"])
    if best:
        row.update(best=step_of(best), best_chance=chance_of(best), gap=best["gap"], summary=best["summary"])
    if expert and best:
        row["changes"] = compared(expert, best)
    return row


def line(row):
    def seconds(value):
        return "-" if value is None else f"{value:.3g} s"

    fits = row["trouble"] if row["expert"] is None else f"{100 * row['chance']:.0f} %"
    gap = f" (gap {100 * row['gap']:.0f} %)" if row.get("gap") else ""
    gain = f"{100 * (row['expert'] / row['best'] - 1):+.1f} %" if row["expert"] and row["best"] else "-"
    return (f"| {row['name']} | {seconds(row['measured'])} | {seconds(row['expert'])} | {fits} | "
            f"{seconds(row['best'])}{gap} | {gain} | {row.get('changes', '')} | {row['seconds']:.1f} s |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headroom", default=str(HERE.parents[1] / "build/release/cli/headroom"))
    parser.add_argument("--json", type=pathlib.Path, help="file for the rows")
    parser.add_argument("--time-limit", metavar="TIME", help="limit of each search")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    entries = json.loads((HERE / "experts.json").read_text(encoding="utf-8"))
    limit = f"--time-limit {arguments.time_limit}" if arguments.time_limit else ""
    rows = []
    print("| configuration | measured | experts' plan | chance to fit | best plan | faster by | what differs | CPU |")
    print("|---|---:|---:|---:|---:|---:|---|---:|")
    for asked in entries:
        if not arguments.names or any(name in asked["name"] for name in arguments.names):
            rows.append(entry(arguments.headroom, asked, limit))
            print(line(rows[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
