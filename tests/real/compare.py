"""Runs rows of tests/measured again, as ordinary programs in a dry run, and compares bytes.

    python3 tests/real/compare.py --headroom build/release/headroom --python VENV/bin/python [ROW...]

ROW: ids of rows, or beginnings that end with "/"; without one the sample of tests/real/rows.txt. Every phase of a row must
have the same peaks of allocated and of reserved memory, to the byte. Exit code 1: a row differs; 2: wrong use.
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FIGURES = ("peak_allocated", "peak_reserved")
FRAMEWORKS = ("transformers", "transformers+ddp", "transformers+fsdp2")


def is_meant(name, wanted):
    return name == wanted or wanted.endswith("/") and name.startswith(wanted)


def measured_rows(wanted):
    """Rows that this script can make again, by id."""
    rows = {}
    for path in sorted((ROOT / "tests" / "measured").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if (row.get("framework") in FRAMEWORKS and "phases" in row
                        and any(is_meant(row["id"], w) for w in wanted)):
                    rows.setdefault(row["id"], row)
    return rows


def command(arguments, row, case_file):
    """The dry run of a row: the GPU that the row names, the world that its plan has."""
    case = row["case"]
    gpu = case.get("gpu", {})
    line = [arguments.headroom, "dryrun", "--json", "--gpu", "h100-80gb", "--steps",
            str(case.get("steps", 2)), "--budget", f"{gpu.get('bytes', 600_000_000_000)}B"]
    if case.get("parallel"):
        line += ["--gpus", str(case["parallel"]["world"]), "--rank", str(case["parallel"].get("rank", 0))]
    return line + ["--", arguments.python, "-W", "ignore", str(HERE / "train.py"), str(case_file)]


def dry_run(arguments, row):
    with tempfile.TemporaryDirectory() as folder:
        case_file = pathlib.Path(folder) / "case.json"
        case_file.write_text(json.dumps(row["case"]), encoding="utf-8")
        done = subprocess.run(command(arguments, row, case_file), capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{row['id']}: no answer (exit code {done.returncode})\n{done.stderr[-2000:]}")


def phase_name(phase, pieces):
    if phase["name"] == "load":
        return "load"
    piece = f".{phase['micro_batch']}" if pieces > 1 and phase["name"] in ("forward", "backward") else ""
    return f"step{phase['step']}{piece}.{phase['name']}"


def differences(row, answer):
    """[(phase, figure, now, recorded)] of all that is not the same."""
    pieces = row["case"].get("accumulation", 1)
    process = answer["processes"][answer["binding"]]
    now = {phase_name(p, pieces): p for p in process["phases"]}
    found = []
    if process.get("exception"):
        found.append(("the program", "exception", process["exception"], "none"))
    for recorded in row["phases"]:
        phase = now.get(recorded["phase"])
        if phase is None:
            if not recorded["phase"].endswith("zero_grad"):
                found.append((recorded["phase"], "phase", "missing", "there"))
            continue
        found += [(recorded["phase"], figure, phase[figure + "_bytes"], recorded[figure])
                  for figure in FIGURES if phase[figure + "_bytes"] != recorded[figure]]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headroom", default=str(ROOT / "build/release/cli/headroom"))
    parser.add_argument("--python", required=True, help="of an environment with PyTorch for CUDA")
    parser.add_argument("rows", nargs="*")
    arguments = parser.parse_args()
    wanted = arguments.rows or (HERE / "rows.txt").read_text(encoding="utf-8").split()
    rows = measured_rows(wanted)
    if not rows:
        parser.error(f"no row begins with {', '.join(wanted)}")
    different = 0
    for name, row in rows.items():
        found = differences(row, dry_run(arguments, row))
        different += bool(found)
        print(f"{name}: {'the same' if not found else 'DIFFERS'}", flush=True)
        for phase, figure, now, recorded in found[:6]:
            print(f"    {phase} {figure}: now {now}, recorded {recorded}")
    print(f"{len(rows) - different} of {len(rows)} rows are the same to the byte")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
