"""Dry runs of real frameworks: `./run test --real` calls this.

    python3 tests/real/run.py [--headroom PROGRAM] [--environment NAME[=FOLDER]]... [--record] [PROGRAM...]

Every environment of tests/real/environments (one file of pinned packages each) becomes a virtual
environment in build/real, once; FOLDER names one that is there already. Every program of programs.json
runs in it under `headroom dryrun`, unchanged, and must have the verdict and the peaks of allocated and
reserved memory that expected.json has; the rows of rows.txt must be made again to the byte (compare.py).
`--record` writes expected.json instead. Exit code 1: something differs.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXPECTED = HERE / "expected.json"
FIGURES = ("verdict", "peak_allocated_bytes", "peak_reserved_bytes")


def environment_folder(name, folder):
    """The virtual environment, made with pip where it is not there."""
    path = pathlib.Path(folder).resolve() if folder else ROOT / "build" / "real" / name
    if not folder and not (path / "ready").exists():
        print(f"{name}: installing {HERE / 'environments' / name}.txt into {path}", flush=True)
        venv.create(path, with_pip=True, clear=True)
        subprocess.run([path / "bin" / "pip", "install", "-q", "-r", HERE / "environments" / f"{name}.txt"],
                       check=True)
        (path / "ready").touch()
    return path


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


def compare_rows(arguments, folder):
    """Makes the rows again that belong to the releases of the environment cuda13."""
    return subprocess.run([sys.executable, HERE / "compare.py", "--headroom", arguments.headroom,
                           "--python", folder / "bin" / "python"], check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headroom", default=str(ROOT / "build/release/cli/headroom"))
    parser.add_argument("--environment", action="append", default=[], help="NAME, or NAME=FOLDER")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    arguments.headroom = str(pathlib.Path(arguments.headroom).resolve())
    chosen = arguments.environment or sorted(p.stem for p in (HERE / "environments").glob("*.txt"))
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    different = 0
    for entry in chosen:
        name, _, path = entry.partition("=")
        folder = environment_folder(name, path)
        different += run_programs(arguments, name, folder, expected)
        if name == "cuda13" and not arguments.programs and not arguments.record:
            different += compare_rows(arguments, folder)
    if arguments.record:
        EXPECTED.write_text(json.dumps(expected, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    sys.exit(1 if different else 0)


main()
