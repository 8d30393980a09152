"""Dry runs of real frameworks: `./run test --real` calls this.

    python3 tests/real/run.py [--headroom PROGRAM] [--environment NAME]... [--venv NAME=FOLDER]... [--record] [PROGRAM...]

Every program of programs.json runs in its environments under `headroom dryrun`, unchanged, and must have the verdict
and the peaks of allocated and reserved memory that expected.json has; the rows of rows.txt must be recorded anew to
the byte (record.py), and the dry run must see them as they are. `--record` writes expected.json instead. Environments:
environments.py; --environment chooses some, --venv names those that are there already. Exit code 1: something differs.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

from environments import ROOT, Environments, parse_given

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected.json"
FIGURES = ("verdict", "peak_allocated_bytes", "peak_reserved_bytes")


def answer_of(headroom, folder, program):
    """The JSON document of a program's dry run."""
    line = [headroom, "dryrun", "--json", "--gpu", program["gpu"], "--gpus", str(program.get("gpus", 1)),
            "--rank", str(program.get("rank", 0)), "--", str(folder / "bin" / program["command"][0])]
    done = subprocess.run(line + program["command"][1:], cwd=HERE / "programs", capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"verdict": f"no answer, exit code {done.returncode}: {done.stderr[-500:]}"}


def run_programs(arguments, name, folder, expected):
    """Runs every program of an environment; the number of those that differ."""
    different = 0
    for program in json.loads((HERE / "programs.json").read_text(encoding="utf-8")):
        if name not in program["environments"] or arguments.programs and program["name"] not in arguments.programs:
            continue
        if program.get("warm"):  # compilers keep tensors while they fill their caches
            answer_of(arguments.headroom, folder, program)
        answer = answer_of(arguments.headroom, folder, program)
        now = {figure: answer.get(figure) for figure in FIGURES}
        before = expected.setdefault(name, {}).get(program["name"])
        same = arguments.record or now == before
        different += not same
        print(f"{name} {program['name']}: {'recorded' if arguments.record else 'the same' if same else 'DIFFERS'}"
              f" {now}{'' if same else f', expected {before}'}", flush=True)
        if arguments.record:
            expected[name][program["name"]] = now
    return different


def record_rows(arguments):
    """Records a sample of rows anew; the number of sources that differ."""
    different = 0
    for line in (HERE / "rows.txt").read_text(encoding="utf-8").splitlines():
        source, *wanted = line.split()
        venvs = [f"--venv={entry}" for entry in arguments.venv]
        different += subprocess.run([sys.executable, HERE / "record.py", "--headroom", arguments.headroom, *venvs,
                                     "--check", "--watched", source, *wanted], check=False).returncode
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headroom", default=str(ROOT / "build/release/cli/headroom"))
    parser.add_argument("--environment", action="append", default=[], help="NAME: these and no others")
    parser.add_argument("--venv", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    arguments.headroom = str(pathlib.Path(arguments.headroom).resolve())
    environments = Environments(parse_given(arguments.venv))
    programs = json.loads((HERE / "programs.json").read_text(encoding="utf-8"))
    used = sorted({name for program in programs for name in program["environments"]})
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    different = 0
    for name in arguments.environment or used:
        different += run_programs(arguments, name, environments.folder(name), expected)
    if not arguments.programs and not arguments.record and not arguments.environment:
        different += record_rows(arguments)
    if arguments.record:
        EXPECTED.write_text(json.dumps(expected, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    sys.exit(1 if different else 0)


main()
