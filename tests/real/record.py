"""Records rows of tests/measured anew with the real frameworks in dry runs: `./run record` calls this.

    python3 tests/real/record.py [OPTIONS] SOURCE [ROW...]

SOURCE: a file of tests/measured without its endings (ladder, deepspeed, ...). ROW: ids of rows, or beginnings that
end with "/"; all rows without one. The rows go to build/real/SOURCE.jsonl.gz in the form of tests/measured, and are
compared with what is committed, figure by figure. Exit code 0: recorded, and with --check also the same; 1: with
--check, something differs; 2: wrong use.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import observed
import rows
from environments import ROOT, Environments, parse_given

HERE = pathlib.Path(__file__).resolve().parent
MOST = 60  # Rows of one process; more processes use more cores.
SHOWN = 6  # Differences of one row.


class Batch:
    """Rows that one process can run: same environment, driver, GPU, world, allocator and variables."""

    def __init__(self, environment, members):
        self.environment = environment
        self.rows = members
        self.case = members[0]["case"]
        self.added = rows.variables_of(members[0])
        self.driver = rows.DRIVERS[members[0]["framework"]]

    def command(self, headroom, folder, files, watched):
        """The dry run of the driver; its own end stops it, not the number of steps."""
        line = [headroom, "dryrun", "--json", "--steps", "0", *rows.device_flags(self.case), "--"]
        line += [str(folder / "bin" / "python"), "-W", "ignore", str(HERE / "drivers" / "serve.py")]
        return line + (["--watched"] if watched else []) + [self.driver, *map(str, files)]

    def variables(self, folder):
        added = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1",
                 "PYTHONHASHSEED": "0", **self.added}  # Rows of Gemma 3 depend on the seed.
        allocator = rows.allocator_of(self.case)
        if allocator:
            added.update(PYTORCH_ALLOC_CONF=allocator, PYTORCH_CUDA_ALLOC_CONF=allocator)
        return {**os.environ, **added}


def batches_of(chosen, environment, watched):
    """Batches of rows; `environment` runs all of them if it is given. Watched rows have a process each."""
    groups = {}
    for row in chosen:
        name = environment or rows.environment_of(row)
        key = (name, rows.DRIVERS[row["framework"]], *rows.device_flags(row["case"]), rows.allocator_of(row["case"]),
               *sorted(rows.variables_of(row).items()))
        groups.setdefault(key, []).append(row)
    size = 1 if watched else MOST
    return [Batch(key[0], group[i:i + size]) for key, group in groups.items() for i in range(0, len(group), size)]


def run_batch(batch, arguments, environments):
    """[(recorded row, row of now, answer of the dry run)] of a batch."""
    folder = environments.folder(batch.environment)
    with tempfile.TemporaryDirectory() as temporary:
        cases, answers = pathlib.Path(temporary) / "cases.jsonl", pathlib.Path(temporary) / "answers.jsonl"
        rows.write(cases, [{"id": row["id"], "case": row["case"]} for row in batch.rows])
        done = subprocess.run(batch.command(arguments.headroom, folder, (cases, answers), arguments.watched),
                              env=batch.variables(folder), capture_output=True, text=True, check=False)
        found = {answer["id"]: answer for answer in (rows.read(answers) if answers.exists() else [])}
    missing = {"error": f"no answer, exit code {done.returncode}: {done.stderr[-800:]}"}
    dry_run = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return [(row, rows.made_anew(row, found.get(row["id"], missing)), dry_run) for row in batch.rows]


def show(name, found):
    in_bytes = sum(map(rows.concerns_bytes, found))
    words = "the same" if not found else f"DIFFERS ({in_bytes} figures of bytes, {len(found) - in_bytes} others)"
    print(f"{name}: {words}", flush=True)
    for phase, figure, now, recorded in found[:SHOWN]:
        text = [str(value)[:300] for value in (now, recorded)]
        print(f"    {phase} {figure}: now {text[0]}, recorded {text[1]}")


def record(chosen, arguments, environments):
    """Rows of now and, row by row, the differences."""
    batches = batches_of(chosen, arguments.environment, arguments.watched)
    for name in sorted({batch.environment for batch in batches}):
        environments.folder(name)  # pip runs before anything is measured
    made, differences, pairs = [], {}, []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for results in pool.map(lambda batch: run_batch(batch, arguments, environments), batches):
            for before, now, dry_run in results:
                found = rows.differences(before, now)
                if arguments.watched:
                    found = observed.without_counts(found) + observed.differences(before, dry_run)
                differences[before["id"]] = found
                show(before["id"], found)
                pairs.append((before, now))
                made += [] if "error" in now else [now]
    return made, differences, pairs


def parse():
    parser = argparse.ArgumentParser(prog="./run record", description=__doc__.splitlines()[0])
    parser.add_argument("--headroom", default=str(ROOT / "build/release/cli/headroom"), help="the program")
    parser.add_argument("--environment", help="run the rows in this one instead of their own: a drift shows")
    parser.add_argument("--venv", action="append", default=[], metavar="NAME=FOLDER",
                        help="a virtual environment that is there already")
    parser.add_argument("--output", type=pathlib.Path, help="file for the rows (build/real/SOURCE.jsonl.gz)")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a row differs")
    parser.add_argument("--watched", action="store_true",
                        help="a process for each row, and what the dry run saw of it is compared, too")
    parser.add_argument("--list", action="store_true", help="count the rows that can be recorded, and run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("source", choices=rows.sources(), metavar="SOURCE")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    arguments = parser.parse_intermixed_args()
    arguments.headroom = str(pathlib.Path(arguments.headroom).resolve())
    return parser, arguments


def main():
    parser, arguments = parse()
    meant = [row for row in rows.read(rows.MEASURED / f"{arguments.source}.jsonl.gz")
             if rows.is_meant(row["id"], arguments.rows)]
    if not meant:
        parser.error(f"{arguments.source} has no row {', '.join(arguments.rows)}")
    reasons = {row["id"]: rows.reason_against(row) for row in meant}
    chosen = [row for row in meant if reasons[row["id"]] is None]
    for reason in sorted(set(filter(None, reasons.values()))):
        print(f"{list(reasons.values()).count(reason)} rows are left out: {reason}")
    print(f"{len(chosen)} of {len(meant)} rows can be recorded")
    if arguments.list or not chosen:
        sys.exit(0 if arguments.list else 1)
    made, differences, pairs = record(chosen, arguments, Environments(parse_given(arguments.venv)))
    output = arguments.output or ROOT / "build" / "real" / f"{arguments.source}.jsonl.gz"
    rows.write(output, made)
    same = [found for found in differences.values() if not found]
    same_bytes = [found for found in differences.values() if not any(map(rows.concerns_bytes, found))]
    print(*rows.drift(pairs), sep="\n")
    print(f"{len(same)} of {len(chosen)} rows are the same in every figure, {len(same_bytes)} in every byte; {output}")
    sys.exit(1 if arguments.check and len(same) < len(chosen) else 0)


if __name__ == "__main__":
    main()
