"""Trains plans in a dry run, or on the GPU of this machine, and compares every phase with the prediction, to the byte.

    python3 tests/real/plans.py --python VENV/bin/python [--headroom PROGRAM] [--with dryrun|torch] [--gpu NAME]
                                [--seconds T] [--output FILE.jsonl] [TEXT...]

The plans are those of plans.txt whose line has one of the texts. Each is written by `headroom fit --json` and goes
through `headroom validate PLAN.json --with dryrun` or `--with torch`. On a GPU, plans for several ranks and for another
GPU are left out, and those that do not fit are not. --output gets one line a plan as soon as it is answered; plans
that the file has are skipped. No plan begins after --seconds. Exit code 1: a plan differs by more than the tolerance,
has no answer, or is left.
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GPU = "h100-80gb"


def lines(wanted):
    """The lines of plans.txt, without remarks."""
    for line in (HERE / "plans.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#") and (not wanted or any(text in line for text in wanted)):
            yield line


def model_file(folder, word):
    """A name of the catalogue, or for NAME@LAYERS a config.json with so many layers."""
    name, _, layers = word.partition("@")
    if not layers:
        return name
    entry = json.loads((ROOT / "configs" / "models" / f"{name}.json").read_text(encoding="utf-8"))
    config = entry["config"]
    config["n_layer" if "n_layer" in config else "num_hidden_layers"] = int(layers)
    for key in ("layer_types", "mlp_only_layers"):
        if config.get(key):
            config[key] = config[key][:int(layers)]
    path = folder / f"{name}-{layers}.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def run(command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def runs_here(line, arguments):
    """Whether a real GPU of that name can run the plan."""
    words = shlex.split(line)
    names_gpu = words[words.index("--gpu") + 1] if "--gpu" in words else arguments.gpu
    return names_gpu == arguments.gpu and "--gpus" not in words


def validated(arguments, line):
    """(answer, error): the JSON document of `validate`, or why there is none."""
    words = shlex.split(line)
    name = words[0].partition("@")[0]
    if not (ROOT / "configs" / "models" / f"{name}.json").exists():
        return None, f"no model {name}"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        gpu = [] if "--gpu" in words else ["--gpu", arguments.gpu]
        asked = run([arguments.headroom, "fit", model_file(folder, words[0]), *words[1:], *gpu, "--json"])
        plan = folder / "plan.json"
        plan.write_text(asked.stdout, encoding="utf-8")
        if "plan_file" not in asked.stdout:
            return None, asked.stderr.strip()
        done = run([arguments.headroom, "validate", plan, "--with", arguments.how, "--python", arguments.python, "--json"])
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        return None, f"exit code {done.returncode}: {done.stderr.strip()[-600:]}"
    if "answer" not in answer:
        return None, done.stderr.strip()[-600:]
    return answer, answer["failure"]


def finished(path):
    """What the file of an earlier run has; a last line without its end does not count."""
    if not path or not pathlib.Path(path).exists():
        return []
    text = pathlib.Path(path).read_text(encoding="utf-8")
    whole = text[:text.rfind("\n") + 1]
    pathlib.Path(path).write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]


def differing(answer, figure):
    """Phases whose peak of that figure is not the predicted one."""
    return [p["phase"] for p in answer["phases"] if p["predicted"][figure] != p["measured"][figure]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headroom", default=str(ROOT / "build/release/cli/headroom"))
    parser.add_argument("--python", required=True, help="of an environment with PyTorch for CUDA")
    parser.add_argument("--with", dest="how", choices=("dryrun", "torch"), default="dryrun",
                        help="a dry run (default), or PyTorch on the GPU of this machine")
    parser.add_argument("--gpu", default=GPU, help=f"GPU of the plans that name none ({GPU})")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no plan begins after this time")
    parser.add_argument("--output", help="file for one JSON document a plan")
    parser.add_argument("texts", nargs="*")
    arguments = parser.parse_args()
    begun = time.monotonic()
    results, left = finished(arguments.output), 0
    for line in lines(arguments.texts):
        if any(result["plan"] == line for result in results):
            continue
        if arguments.how == "torch" and not runs_here(line, arguments):
            continue
        if time.monotonic() - begun >= arguments.seconds:
            left += 1
            continue
        answer, error = validated(arguments, line)
        figures = ("peak_allocated_bytes", "peak_reserved_bytes")
        off = {figure: differing(answer, figure) if answer else None for figure in figures}
        known = answer is not None and answer["answer"] != "unknown"
        word = "no answer" if not known else "the same" if not any(off.values()) else answer["answer"]
        results.append({"plan": line, "answer": answer, "error": error, "word": word, "off": off})
        if arguments.output:
            with open(arguments.output, "a", encoding="utf-8") as file:
                file.write(json.dumps(results[-1]) + "\n")
        print(f"{line}: {word}" + (f": {error}" if not known else ""), flush=True)
        if known and word != "the same":
            for phase in answer["phases"]:
                gaps = [phase["measured"][f] - phase["predicted"][f] for f in figures]
                if any(gaps):
                    print(f"    {phase['phase']}: allocated {gaps[0]:+d}, reserved {gaps[1]:+d}")
    measured = [r for r in results if r["word"] != "no answer"]
    same = {f: sum(not r["off"][f] for r in measured) for f in ("peak_allocated_bytes", "peak_reserved_bytes")}
    print(f"{len(measured)} of {len(results)} plans measured; every phase the same to the byte: allocated "
          f"{same['peak_allocated_bytes']}, reserved {same['peak_reserved_bytes']}" + (f"; {left} plans left" if left else ""))
    sys.exit(1 if left or any(r["word"] not in ("the same", "agrees") for r in results) else 0)


if __name__ == "__main__":
    main()
