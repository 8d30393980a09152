"""Records rows of tests/measured as programs, replays them, and compares with what PyTorch's allocator reported.

    python3 tests/real/replay.py --venv FOLDER [--headroom PROGRAM] [--sample N] [ROW...]

Every row runs twice in a dry run. The first run is recorded; `headroom fit --program` must agree with it to the byte in every
phase. The second run has another setting of the allocator, or a budget in which PyTorch has to empty its cache; the
replay of the first recording for that setting must agree with the second run. The other settings take turns.
FOLDER: an environment with the packages of environments/cuda13.txt. ROW: ids of rows that drivers/train.py runs, or
beginnings that end with "/"; `--sample N` takes N rows at equal distances from all that one GPU holds. Exit code 1:
something differs.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import rows as measured
from environments import ROOT
from record import Batch

SOURCES = ("ladder", "random", "unseen")
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "allocated_after_bytes", "reserved_after_bytes", "retries")
OTHERS = ("expandable_segments:True", "max_split_size_mb:128", "budget", "roundup_power2_divisions:8")


def answer_of(line, **variables):
    """The JSON document of a command."""
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{' '.join(line)}: no answer (exit code {done.returncode})\n{done.stderr[-2000:]}")


def dry_run(arguments, row, folder, conf, *options):
    """The dry run of a row with `conf` as PYTORCH_ALLOC_CONF; options of headroom come last."""
    cases = folder / "cases.jsonl"
    measured.write(cases, [{"id": row["id"], "case": row["case"]}])
    batch = Batch("cuda13", [row])
    line = batch.command(arguments.headroom, arguments.venv, (cases, folder / "answers.jsonl"), True)
    at = line.index("--")
    variables = {**batch.variables(arguments.venv), **({"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {})}
    return answer_of(line[:at] + list(options) + line[at:], **variables)


def differing(dry, replayed):
    """[(phase, figure, replayed, dry)] of all that is not the same."""
    phases = dry["processes"][dry["binding"]]["phases"]
    if len(phases) != len(replayed["phases"]):
        return [("all", "phases", len(replayed["phases"]), len(phases))]
    return [(there["name"], figure, there[figure], here[figure])
            for here, there in zip(phases, replayed["phases"]) for figure in FIGURES if here[figure] != there[figure]]


def tight(answer):
    """A budget in which the program's allocated bytes fit, but not what it would like to reserve; none if they are one."""
    reserved, allocated = answer["peak_reserved_bytes"], answer["peak_allocated_bytes"]
    outside = sum(term["bytes"] for term in answer["device"]["outside"])
    return outside + answer["recording"].get("other_bytes", 0) + allocated + (reserved - allocated) // 2


def check(arguments, row, other, folder):
    """The differences of a row: (recorded against replayed, other run against replayed for it)."""
    record = folder / "row.program.gz"
    conf = row["case"].get("allocator", "")
    dry = dry_run(arguments, row, folder, conf, "--record", str(record))
    if not record.exists():
        return None, None, dry["notes"]
    fit = [arguments.headroom, "fit", "--json", "--program", str(record)]
    replayed = answer_of(fit)
    own = differing(dry, replayed)
    if other == "budget":
        budget = f"{tight(replayed)}B"
        second = dry_run(arguments, {**row, "case": {**row["case"], "gpu": {"bytes": tight(replayed)}}}, folder, conf)
        again = answer_of(fit + ["--budget", budget])
        ends = [document["verdict"] == "does not fit" for document in (second, again)]
        if all(ends):
            return own, [], ["both run out of memory"]
        if any(ends):
            return own, [("verdict", "verdict", again["verdict"], second["verdict"])], []
    else:
        second = dry_run(arguments, row, folder, other)
        again = answer_of(fit + ["--alloc-conf", other])
    return own, differing(second, again), []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headroom", default=str(ROOT / "build/release/cli/headroom"))
    parser.add_argument("--venv", type=pathlib.Path, required=True, help="folder of an environment with PyTorch for CUDA")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("rows", nargs="*")
    arguments = parser.parse_args()
    rows = [row for source in SOURCES for row in measured.read(measured.MEASURED / f"{source}.jsonl.gz")
            if measured.is_meant(row["id"], arguments.rows) and measured.reason_against(row) is None
            and measured.DRIVERS[row["framework"]] == "train" and not row.get("oom")]
    if arguments.sample:
        rows = [rows[index * len(rows) // arguments.sample] for index in range(arguments.sample)]
    same = [0, 0]
    total = 0
    for number, row in enumerate(rows):
        other = OTHERS[number % len(OTHERS)]
        with tempfile.TemporaryDirectory() as folder:
            own, others, notes = check(arguments, row, other, pathlib.Path(folder))
        if own is None:
            print(f"{row['id']}: not recorded: {notes}", flush=True)
            continue
        total += 1
        same[0] += not own
        same[1] += not others
        print(f"{row['id']}: {'the same' if not own else 'DIFFERS'}; {other}: {'the same' if not others else 'DIFFERS'} "
              f"{'; '.join(notes)}", flush=True)
        for phase, figure, replayed, dry in (own[:3] + others[:3]):
            print(f"    {phase} {figure}: replayed {replayed}, dry run {dry}")
    print(f"{same[0]} of {total} recordings and {same[1]} of {total} other runs are replayed to the byte")
    sys.exit(0 if same == [total, total] else 1)


if __name__ == "__main__":
    main()
