"""Runs published measurements of real GPUs again in dry runs, where their recipe is stated: `./run published`.

    python3 tests/real/published.py [--headroom PROGRAM] [--venv NAME=FOLDER]... [--most PERCENT] [NAME...]

published.json has the figures and their sources; programs/ has the recipes, written anew. A program prints a line
`peak BYTES ...`, the figure that was published. Exit code 1: a row did not run, or is further off than --most (1 %) and
has no key `known`, which says what is known of a difference.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from environments import ROOT, Environments, parse_given

HERE = pathlib.Path(__file__).resolve().parent
GIB = 1 << 30


def peak_of(output):
    """The bytes that a program printed; None if it printed none."""
    for line in output.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "peak":
            return int(words[1])
    return None


def run(headroom, folder, source, row):
    """(bytes, error) of a row's dry run."""
    program, *first = source["command"]
    line = [headroom, "dryrun", "--json", "--gpu", source["gpu"], "--steps", "0", *row.get("flags", []), "--",
            str(folder / "bin" / program), "-W", "ignore", *first, *row["arguments"]]
    done = subprocess.run(line, cwd=HERE / "programs", capture_output=True, text=True, check=False)
    found = peak_of(done.stderr) or peak_of(done.stdout)
    return found, None if found else f"exit code {done.returncode}: {done.stderr[-600:]}"


def too_far(rows, errors, most):
    """The names of the rows that did not run (None), or are off by more than `most` percent and have no key `known`."""
    return [row["name"] for row, off in zip(rows, errors) if off is None or abs(off) > most and "known" not in row]


def main():
    parser = argparse.ArgumentParser(prog="./run published", description=__doc__.splitlines()[0])
    parser.add_argument("--headroom", default=str(ROOT / "build/release/cli/headroom"))
    parser.add_argument("--venv", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--most", type=float, default=1.0, help="percent that a row may be off (1)")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    environments = Environments(parse_given(arguments.venv))
    document = json.loads((HERE / "published.json").read_text(encoding="utf-8"))
    rows = [row for row in document["rows"] if not arguments.names or row["name"] in arguments.names]
    if not rows:
        parser.error(f"no row {', '.join(arguments.names)}; expected one of "
                     f"{', '.join(row['name'] for row in document['rows'])}")
    errors = []
    for row in rows:
        source = document["sources"][row["source"]]
        found, error = run(arguments.headroom, environments.folder(source["environment"]), source, row)
        off = 100 * (found / GIB / row["published_gib"] - 1) if found else None
        errors.append(off)
        words = f"{found / GIB:.4f} GiB, {off:+.3f} %" if found else error
        print(f"{row['name']}: published {row['published_gib']} GiB, dry run {words}", flush=True)
    known = [abs(off) for off in errors if off is not None]
    if known:
        print(f"{len(known)} of {len(rows)} rows ran; median {statistics.median(known):.3f} %, "
              f"worst {max(known):.3f} %")
    sys.exit(1 if too_far(rows, errors, arguments.most) else 0)


if __name__ == "__main__":
    main()
