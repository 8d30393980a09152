#!/usr/bin/env python3
"""Measures training cases on the GPU of this machine with PyTorch: bytes of each phase, and the time of a step.

    measure.py CASES.jsonl OUT.jsonl [--seconds T] [--longest T] [--only TEXT] [--cudnn] [--no-times]
    measure.py --compare A.jsonl B.jsonl

Each line of CASES is a case (`id`, `model` and the keys below), a row of tests/measured (its `case` is run), or the
`config` of a `model` that later lines name. OUT gets one line a case, in the form of tests/measured, as soon as it
is measured; `headroom validate measured OUT.jsonl` compares it with predictions. Cases that OUT has are skipped, so
that a stay on a GPU may be short: the same command goes on. All cases run in one tree of processes, each in a process
of its own, which ends when it fails or takes longer than --longest; after --seconds no further case begins.

On a machine without a GPU the same runs in a dry run:

    headroom dryrun --gpu h100-80gb -- python measure.py CASES.jsonl dry.jsonl --no-times

`--compare` then says case by case in which phases two files differ. Exit codes: 0; 1 if something differs or cases are
left; 4 without a GPU.

Keys of a case: config (of transformers), attention, param_dtype (fp32, bf16), micro_batch, seq, steps, optimizer
(adamw, adamw_fused, adamw_loop, sgd, sgd_momentum, none), precision (autocast_bf16, autocast_fp16), accumulation,
clip, checkpointing (full, full_reentrant), lora ({"r": N}), parallel ({"kind": "ddp" or "fsdp2", "world": 1}),
allocator (PYTORCH_ALLOC_CONF), eval, drop_logits, cudnn, time_steps. A case with another value is left out.
Weights are normal random numbers: zeros draw less power, and send all tokens to the same experts.
Needs PyTorch and transformers; peft for adapters.
"""
import argparse
import gzip
import json
import os
import pathlib
import select
import signal
import sys
import time

OPTIMIZERS = {"adamw", "adamw_fused", "adamw_loop", "sgd", "sgd_momentum", "none"}
HALF = {"autocast_bf16": "bfloat16", "autocast_fp16": "float16"}
# NCCL's watchdog releases the blocks of finished works every 100 ms (kWatchdogThreadSleepMillis in
# torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp). Phases of a dry run are shorter than that.
NCCL_PAUSE = 0.25  # Seconds.
FIGURES = ("allocated_after", "peak_allocated", "reserved_after", "peak_reserved")


# --- Cases --------------------------------------------------------------------------------------

def read_lines(path):
    """The JSON documents of a file of lines; a last line without its end does not count."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n") and line.strip():
                yield json.loads(line)


def read_cases(path):
    """(id, case) of every case of a file."""
    configs = {}
    for number, row in enumerate(read_lines(path), start=1):
        if "id" not in row:
            configs[row["model"]] = row["config"]
            continue
        case = dict(row.get("case", row))
        if "config" not in case:
            if case.get("model") not in configs:
                sys.exit(f"{path}, line {number}: the case {row['id']} has no config, and none of its model stands before it")
            case["config"] = configs[case["model"]]
        case.pop("id", None)
        yield row["id"], case


def unknown(case):
    """Why this program cannot run the case; None: it can."""
    parallel = case.get("parallel") or {}
    if case.get("optimizer", "adamw") not in OPTIMIZERS:
        return f"optimizer {case['optimizer']}"
    if case.get("checkpointing") not in (None, "none", "full", "full_reentrant"):
        return f"checkpointing {case['checkpointing']}"
    if case.get("precision") not in (None, *HALF):
        return f"precision {case['precision']}"
    if parallel and (parallel.get("kind") not in ("ddp", "fsdp2") or parallel.get("world", 1) != 1):
        return f"parallel {json.dumps(parallel)}"
    if case.get("task") is not None or case.get("quant") or case.get("peft") or case.get("liger"):
        return "another task, or another library"
    return None


# --- One case -----------------------------------------------------------------------------------

class Phases:
    """Books of one phase after the other."""

    def __init__(self, torch, pause=0.0):
        self.torch, self.pause, self.done = torch, pause, []

    def __call__(self, name, work):
        cuda = self.torch.cuda
        cuda.synchronize()
        time.sleep(self.pause)
        cuda.reset_peak_memory_stats()
        before, start = cuda.memory_allocated(), time.perf_counter()
        result = work()
        cuda.synchronize()
        seconds, stats = time.perf_counter() - start, cuda.memory_stats()
        self.done.append({
            "phase": name, "allocated_before": before,
            "allocated_after": stats["allocated_bytes.all.current"],
            "peak_allocated": stats["allocated_bytes.all.peak"],
            "reserved_after": stats["reserved_bytes.all.current"],
            "peak_reserved": stats["reserved_bytes.all.peak"],
            "retries": stats["num_alloc_retries"], "seconds": seconds})
        return result


def make_optimizer(torch, name, parameters):
    if name == "none":
        return None
    if name.startswith("adamw"):
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True if name == "adamw_fused" else None,
                                 foreach=False if name == "adamw_loop" else None)
    return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9 if name == "sgd_momentum" else 0)


def draw_weights(torch, model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shard = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            if "lora_" in name:
                continue
            if parameter.dim() > 1:
                shard.normal_(0, 0.02)
            else:
                shard.fill_(0.0 if name.endswith("bias") else 1.0)


def distribute(torch, model, parallel):
    """DDP or FSDP2 with one rank: buckets, shards and collectives of a job, without other GPUs."""
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1,
                                         device_id=torch.device("cuda", 0))
    if parallel["kind"] == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[0], init_sync=False)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    lists = [m for name, m in model.named_modules() if isinstance(m, torch.nn.ModuleList) and "expert" not in name]
    options = {"mesh": init_device_mesh("cuda", (1,)),
               "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    for layer in max(lists, key=len):
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return model.to_empty(device="cuda")


def build(torch, case):
    import transformers
    from transformers.initialization import no_init_weights
    config = dict(case["config"])
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    made.use_cache = False
    attention = case.get("attention", "sdpa")
    parallel = case.get("parallel") or {}
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if case.get("param_dtype") == "bf16" else torch.float32)
    with no_init_weights(), torch.device("meta" if parallel.get("kind") == "fsdp2" else "cuda"):
        model = transformers.AutoModelForCausalLM.from_config(made, attn_implementation=attention)
    torch.set_default_dtype(before)
    model.tie_weights()
    if case.get("lora"):
        import peft
        lora = case["lora"]
        model = peft.get_peft_model(model, peft.LoraConfig(
            task_type="CAUSAL_LM", r=lora["r"], lora_alpha=lora.get("alpha", 2 * lora["r"]),
            lora_dropout=lora.get("dropout", 0.0), target_modules=lora.get("targets", "all-linear")))
    model.train()
    if case.get("checkpointing") in ("full", "full_reentrant"):
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": case["checkpointing"] == "full_reentrant"})
        if case.get("lora"):
            model.enable_input_require_grads()
    if parallel:
        model = distribute(torch, model, parallel)
    draw_weights(torch, model)
    return model


def train(torch, case, phases):
    """Runs the case's steps; returns a function that runs one more without books."""
    model = phases("load", lambda: build(torch, case))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = make_optimizer(torch, case.get("optimizer", "adamw"), trained)
    half = getattr(torch, HALF[case["precision"]]) if case.get("precision") else None
    scaler = torch.amp.GradScaler("cuda") if half is torch.float16 else None
    shape = (case.get("micro_batch", 1), case.get("seq", 2048))
    words = case["config"]["vocab_size"]
    batch = {}

    def forward():
        batch["ids"] = torch.randint(0, words, shape, device="cuda")
        with torch.autocast("cuda", half, enabled=half is not None):
            out = model(input_ids=batch["ids"], labels=batch["ids"])
        batch["loss"] = out.loss
        if not case.get("drop_logits", True):
            batch["out"] = out

    def backward():
        loss = batch["loss"] / accumulation if accumulation > 1 else batch["loss"]
        (scaler.scale(loss) if scaler else loss).backward()
        del loss
        batch.clear()

    def step():
        if scaler:
            scaler.unscale_(optimizer)
        if case.get("clip"):
            torch.nn.utils.clip_grad_norm_(trained, case["clip"])
        scaler.step(optimizer) if scaler else optimizer.step()
        if scaler:
            scaler.update()

    def evaluate():
        model.eval()
        with torch.no_grad():
            forward()
            batch.clear()
        model.train()

    accumulation = case.get("accumulation") or 1
    for number in range(1, case.get("steps", 2) + 1):
        for micro in range(1, accumulation + 1):
            tag = f"step{number}" + (f".{micro}" if accumulation > 1 else "")
            phases(tag + ".forward", forward)
            phases(tag + ".backward", backward)
        if optimizer is not None:
            phases(f"step{number}.optimizer", step)
            phases(f"step{number}.zero_grad", lambda: optimizer.zero_grad(set_to_none=True))
    if case.get("eval"):
        phases("evaluation", evaluate)

    def whole():
        for _ in range(accumulation):
            forward()
            backward()
        if optimizer is not None:
            step()
            optimizer.zero_grad(set_to_none=True)

    return model, whole


def step_seconds(torch, whole, steps=8):
    """The median of so many steps after three."""
    taken = []
    for _ in range(3 + steps):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        whole()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3)
    return sorted(taken[3:])[steps // 2]


def versions(torch):
    import importlib.metadata
    found = {"torch": torch.__version__, "cuda": torch.version.cuda}
    for name in ("transformers", "peft"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def set_allocator(torch, setting):
    """The allocator reads its settings at the first allocation at the latest; torch is imported already."""
    if setting:
        change = getattr(torch._C, "_accelerator_setAllocatorSettings", None) or torch.cuda.memory._set_allocator_settings
        change(setting)


def run_case(name, case, cudnn=False, times=True):
    """The row of a case."""
    import torch
    cudnn = cudnn or bool(case.get("cudnn"))
    set_allocator(torch, case.get("allocator"))
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    torch.zeros(1, device="cuda")  # The recorded rows began with a small tensor that is gone at once.
    properties = torch.cuda.get_device_properties(0)
    phases = Phases(torch, NCCL_PAUSE if case.get("parallel") else 0.0)
    kind = (case.get("parallel") or {}).get("kind")
    kept = {key: value for key, value in case.items() if value is not None and key not in ("time_steps", "trace")}
    measured = {"id": name, "framework": "transformers" + (f"+{kind}" if kind else ""), "versions": versions(torch),
                "case": kept, "measured_on": "gpu", "gpu": torch.cuda.get_device_name(0)}
    kept["gpu"] = {"cc": properties.major * 10 + properties.minor, "sms": properties.multi_processor_count}
    if cudnn:
        kept["cudnn"] = True
    try:
        model, whole = train(torch, case, phases)
        parameters = list(model.parameters())
        measured["parameters"] = sum(p.numel() for p in parameters)
        measured["trainable"] = sum(p.numel() for p in parameters if p.requires_grad)
        measured["phases"] = phases.done
        if times and case.get("time_steps", 8):
            measured["step_seconds"] = step_seconds(torch, whole, case.get("time_steps", 8))
    except torch.cuda.OutOfMemoryError as error:
        if "phases" not in measured:
            measured["oom"] = str(error)
    free, total = torch.cuda.mem_get_info()
    measured["outside_pytorch"] = total - free - torch.cuda.memory_reserved()
    kept["gpu"]["bytes"] = total - measured["outside_pytorch"]
    return measured


# --- All cases ----------------------------------------------------------------------------------

def in_child(work, limit):
    """What `work` returns in a process of its own; None where it fails or takes longer than `limit` seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(json.dumps(work()).encode())
            status = 0
        except Exception as error:
            print(f"{type(error).__name__}: {error}"[:300], file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    os.close(writing)
    deadline, text = time.monotonic() + limit, b""
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(reading, 1 << 20) if ready else b""
        if not part:
            break
        text += part
    os.close(reading)
    if not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else None


def device_bytes():
    import torch
    return torch.cuda.get_device_properties(0).total_memory


def import_once():
    """Imported before processes begin; none here may touch the GPU."""
    import torch  # noqa: F401
    import transformers
    from transformers import AutoModelForCausalLM  # noqa: F401
    transformers.logging.set_verbosity_error()
    try:
        import peft  # noqa: F401
    except ImportError:
        pass


def measure_all(cases, path, seconds, longest, run=run_case):
    """Measures (id, case) pairs that the file lacks; returns how many are left."""
    path = pathlib.Path(path)
    done = {row["id"] for row in read_lines(path)} if path.exists() else set()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text and not text.endswith("\n"):  # An interrupted program left a piece of a line.
        path.write_text(text[:text.rfind("\n") + 1], encoding="utf-8")
    wanted = [(name, case) for name, case in cases if name not in done]
    begun, measured = time.monotonic(), 0
    with path.open("a", encoding="utf-8") as out:
        for name, case in wanted:
            left = begun + seconds - time.monotonic()
            if left <= 0:
                break
            why = unknown(case)
            row = in_child(lambda: run(name, case), min(left, longest)) if why is None else None
            if row is None:
                print(f"{name}: {why or 'failed, or took too long'}", file=sys.stderr, flush=True)
                continue
            out.write(json.dumps(row) + "\n")
            out.flush()
            measured += 1
    print(f"{measured} cases measured, {len(done)} were there, {len(wanted) - measured} are left", file=sys.stderr)
    return len(wanted) - measured


# --- Comparing ----------------------------------------------------------------------------------

def differing(a, b):
    """[(phase, figure, bytes of b minus bytes of a)] of two rows; None if they do not have the same phases."""
    phases = {p["phase"]: p for p in b.get("phases", [])}
    if [p["phase"] for p in a.get("phases", [])] != list(phases):
        return None
    return [(p["phase"], figure, phases[p["phase"]][figure] - p[figure])
            for p in a.get("phases", []) for figure in FIGURES if phases[p["phase"]][figure] != p[figure]]


def compare(first, second):
    """Prints every case of both files; returns whether all bytes are the same."""
    others = {row["id"]: row for row in read_lines(second)}
    both, same, same_allocated = 0, 0, 0
    for row in read_lines(first):
        other = others.get(row["id"])
        if other is None:
            continue
        both += 1
        gaps = differing(row, other)
        if gaps is None:
            print(f"{row['id']}: not the same phases" +
                  "".join(f"; {name} ran out of memory" for name, r in (("the first", row), ("the second", other)) if "oom" in r))
            continue
        same += not gaps
        same_allocated += not any("allocated" in figure for _, figure, _ in gaps)
        print(f"{row['id']}: " + ("the same" if not gaps else f"{len(gaps)} figures differ"))
        for phase, figure, gap in gaps:
            print(f"    {phase}: {figure} {gap:+d}")
    print(f"{both} cases in both files; every byte the same: {same}; every allocated byte: {same_allocated}")
    return both > 0 and same == both


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs=2, metavar="FILE", help="cases and answers, or with --compare two files of answers")
    parser.add_argument("--seconds", type=float, default=480, help="no case begins after this time (480)")
    parser.add_argument("--longest", type=float, default=60, help="seconds that one case may take (60)")
    parser.add_argument("--only", default="", help="only cases whose id has this text")
    parser.add_argument("--cudnn", action="store_true", help="leave cuDNN attention on in every case")
    parser.add_argument("--no-times", action="store_true", help="measure bytes alone")
    parser.add_argument("--compare", action="store_true", help="compare two files of answers")
    options = parser.parse_args()
    if options.compare:
        sys.exit(0 if compare(*options.files) else 1)
    cases = [(name, case) for name, case in read_cases(options.files[0]) if options.only in name]
    import_once()
    if in_child(device_bytes, 60) is None:
        print("no GPU: PyTorch finds none", file=sys.stderr)
        sys.exit(4)
    left = measure_all(cases, options.files[1], options.seconds, options.longest,
                       lambda name, case: run_case(name, case, options.cudnn, not options.no_times))
    import torch
    torch.zeros(1, device="cuda")  # A dry run asks that this process, too, has used the GPU.
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
