"""Rows of tests/measured: which are meant, who made them, and how two of them differ."""
import gzip
import json
import pathlib
import statistics

MEASURED = pathlib.Path(__file__).resolve().parent.parent / "measured"
BYTES = ("allocated_before", "allocated_after", "peak_allocated", "reserved_after", "peak_reserved", "requested_after",
         "peak_requested")
DRIVERS = {
    "transformers": "train",
    "transformers+ddp": "train",
    "transformers+fsdp1": "train",
    "transformers+fsdp2": "train",
    "transformers+bitsandbytes": "quantised",
    "deepspeed": "engine",
    "torchtitan": "titan",
    "megatron": "megatron_core",
}
DEVICES = {75: "t4", 80: "a100-80gb", 89: "rtx-4090", 90: "h100-80gb", 100: "b200"}  # Keys are compute capabilities times ten.
USUAL_BYTES = 600_000_000_000  # Memory for a row that names no size: nothing is ever full.
TITAN_BYTES = 85_024_112_640  # Memory for torchtitan's rows that name no size
NEWEST = "5.17.0"  # transformers of most rows
STAND_INS = pathlib.Path(__file__).resolve().parent / "drivers" / "stand_ins"
MEGATRON_VARIABLES = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",  # Megatron-LM asks for it.
    "NVTE_DISABLE_NVRTC": "1",  # Transformer Engine compiles no kernels at run time, as in the recordings.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # Imports that ask for a GPU do not spoil a fork.
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # A forked process cannot use the threads of its parent.
}


def read(path):
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8") as file:
        for row in rows:
            print(json.dumps(row, separators=(",", ":")), file=file)


def sources():
    """Names of the files that have recorded rows."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in MEASURED.glob("*.jsonl.gz"))


def is_meant(name, wanted):
    """Whether an id is among `wanted`, whole ids or beginnings that end with "/"; all are if nothing is wanted."""
    return not wanted or any(name == w or w.endswith("/") and name.startswith(w) for w in wanted)


def environment_of(row):
    """The name of the environment whose releases made the row."""
    versions, case = row.get("versions") or {}, row["case"]
    for package, environment in (("torchtitan", "torchtitan"), ("mcore", "megatron-core")):
        if package in versions:
            engine = f"-te-{versions['te']}" if "te" in versions else ""
            return f"{environment}-{versions[package]}{engine}"
    if versions.get("transformers", NEWEST) != NEWEST:
        return f"transformers-{versions['transformers']}"
    if case.get("quant") or case.get("liger") or "bit" in case.get("optimizer", ""):
        return "kernels"
    return "cuda13"


def reason_against(row):
    """Why a row cannot be recorded here; None if it can."""
    case = row["case"]
    if case.get("cudnn"):
        return "cuDNN's attention, which the stand-in does not have"
    if row["framework"] not in DRIVERS:
        return f"no driver for {row['framework']}"
    if row["framework"] == "megatron" and row.get("measured_on") == "gpu":
        return "a commit of Megatron-LM that is no release, on real GPUs"
    if case.get("attention") == "flash_attention_2":
        return "flash-attn's kernels are compiled for a real GPU"
    return None


def device_flags(case):
    """The arguments of `headroom dryrun` for the GPU and the world of a case."""
    gpu = case.get("gpu", {})
    size = gpu.get("bytes", case.get("gpu_bytes", TITAN_BYTES if "flavor" in case else USUAL_BYTES))
    flags = ["--gpu", DEVICES[gpu.get("cc", 90)], "--budget", f"{size}B"]
    world = case.get("parallel") or case
    if world.get("world", 1) > 1:
        flags += ["--gpus", str(world["world"]), "--rank", str(world.get("rank", 0))]
    return flags


def allocator_of(case):
    """The case's PYTORCH_ALLOC_CONF; torchtitan's own launcher sets one."""
    return case.get("allocator") or case.get("alloc_conf", "expandable_segments:True" if "flavor" in case else "")


def variables_of(row):
    """The variables that a row's process needs from its beginning, beside those of the allocator."""
    case = row["case"]
    if row["framework"] != "megatron":
        return {}
    variables = {**MEGATRON_VARIABLES, **{name: str(value) for name, value in case.get("env", {}).items()}}
    if case.get("flash_attn2"):  # Transformer Engine looks for it when it is imported.
        variables["PYTHONPATH"] = str(STAND_INS / "flash_attention")
    return variables


def made_anew(row, answer):
    """The row with what a driver answered in place of what it had."""
    kept = {key: row[key] for key in ("id", "framework", "case")}
    return {**kept, **{key: value for key, value in answer.items() if key != "id"}}


def differences(recorded, now):
    """[(phase, figure, now, recorded)] of every figure of a recorded row that is not the same now."""
    if "error" in now:
        return [("the program", "error", now["error"], "none")]
    if ("oom" in now) != ("oom" in recorded):
        return [("the program", "oom", now.get("oom"), recorded.get("oom"))]
    found = [("the model", key, now.get(key), recorded[key]) for key in ("parameters", "trainable")
             if recorded.get(key) and now.get(key) != recorded[key]]  # 0: it did not come so far.
    phases = {phase["phase"]: phase for phase in now.get("phases", [])}
    for phase in recorded.get("phases", []):
        other = phases.get(phase["phase"])
        if other is None:
            found.append((phase["phase"], "phase", "missing", "there"))
            continue
        found += [(phase["phase"], figure, other.get(figure), value) for figure, value in phase.items()
                  if figure != "seconds" and _comparable(other.get(figure), value) != _comparable(value, value)]
    return found


def _comparable(figure, recorded):
    """Of `work`, what the recorded one has, with its collectives in the order of their names; any other figure as it
    is."""
    if not isinstance(figure, dict) or not isinstance(recorded, dict):
        return figure
    return {key: sorted(value) if key == "collectives" else value for key, value in figure.items() if key in recorded}


def concerns_bytes(difference):
    """Whether a difference is one of bytes or of the verdict, not of counts and live sets."""
    return difference[1] in BYTES or difference[1] in ("error", "oom", "phase", "parameters", "trainable")


def highest(row, figure="peak_allocated"):
    return max((phase.get(figure, 0) for phase in row.get("phases", [])), default=0)


def drift(pairs):
    """Changes between recorded rows and those made now: one line of text for each kind of peak.

    `pairs`: [(recorded, now)] of rows that ran both times."""
    lines = []
    pairs = [(then, now) for then, now in pairs if "phases" in then and "phases" in now]
    for figure in ("peak_allocated", "peak_reserved"):
        changes = [highest(now, figure) / highest(then, figure) - 1 for then, now in pairs if highest(then, figure)]
        moved = [change for change in changes if change]
        if moved:
            lines.append(f"{figure}: {len(moved)} of {len(changes)} rows changed, by {min(moved):+.3%} to "
                         f"{max(moved):+.3%}, median {statistics.median(moved):+.3%}")
        elif changes:
            lines.append(f"{figure}: the same in all of {len(changes)} rows")
    return lines
