#!/usr/bin/env python3
"""Runs rows of tests/measured on the GPU of this machine, with real kernels.

measure.py OUT.jsonl [--limit N] [--seconds T] [--cudnn] [--only TEXT] [--source NAME,..]

Writes what PyTorch allocated and what a step took, in the form of tests/measured, for
`headroom validate measured OUT.jsonl`, which compares `step_seconds` (the median of eight steps without
synchronisation between phases) with the time model (metric `step_time_ms`) where it knows the GPU's name. Beyond that
form a row has `outside_pytorch`: bytes of the device that neither is free nor belongs to PyTorch's allocator.
Weights are normal random numbers: zeros draw less power, and send all tokens to the same experts.
Rows are taken that ran on one GPU, need only transformers, and fit; each runs in a process of its own.
`--cudnn` leaves cuDNN attention on. `--source flash_attention` takes the rows of that file (it asks for the package flash-attn).
Needs: PyTorch and transformers in the versions that tests/measured/README.md names.
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

ROWS = pathlib.Path(__file__).resolve().parent.parent / "measured"
LONGEST = 45  # Seconds for one row: a few of billions of parameters and many tokens take minutes.
OPTIMIZERS = {"adamw", "adamw_fused", "adamw_loop", "sgd", "sgd_momentum"}


def rows(device_bytes, only, sources):
    for name in sources:
        with gzip.open(ROWS / f"{name}.jsonl.gz", "rt") as lines:
            for line in lines:
                row = json.loads(line)
                case = row["case"]
                plain = row["framework"] == "transformers" and not any(
                    case.get(key) for key in ("lora", "gpu", "allocator", "task", "eval"))
                if not plain or case.get("optimizer", "adamw") not in OPTIMIZERS or only not in row["id"]:
                    continue
                if "phases" in row and max(p["peak_reserved"] for p in row["phases"]) < 0.9 * device_bytes:
                    yield row


def make_optimizer(torch, name, parameters):
    if name.startswith("adamw"):
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True if name == "adamw_fused" else None,
                                 foreach=False if name == "adamw_loop" else None)
    return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9 if name == "sgd_momentum" else 0)


class Phases:
    """Books of one phase after the other."""

    def __init__(self, torch):
        self.torch, self.done = torch, []

    def __call__(self, name, work):
        cuda = self.torch.cuda
        cuda.synchronize()
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


def build(torch, case):
    import transformers
    from transformers.initialization import no_init_weights
    config = dict(case["config"])
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    made.use_cache = False
    attention = case.get("attention", "sdpa")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if case.get("param_dtype") == "bf16" else torch.float32)
    with no_init_weights(), torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(made, attn_implementation=attention)
    torch.set_default_dtype(before)
    model.tie_weights()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.02)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    model.train()
    if case.get("checkpointing"):
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": case["checkpointing"] == "full_reentrant"})
    return model


def train(torch, case, phases):
    model = phases("load", lambda: build(torch, case))
    optimizer = make_optimizer(torch, case.get("optimizer", "adamw"), model.parameters())
    half = {"autocast_bf16": torch.bfloat16, "autocast_fp16": torch.float16}.get(case.get("precision"))
    scaler = torch.amp.GradScaler("cuda") if half is torch.float16 else None
    shape = (case.get("micro_batch", 1), case.get("seq", 2048))
    batch = {}

    def forward():
        batch["ids"] = torch.randint(0, model.config.vocab_size, shape, device="cuda")
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
            torch.nn.utils.clip_grad_norm_(model.parameters(), case["clip"])
        scaler.step(optimizer) if scaler else optimizer.step()
        if scaler:
            scaler.update()

    accumulation = case.get("accumulation", 1)
    for number in range(1, case.get("steps", 2) + 1):
        for micro in range(1, accumulation + 1):
            tag = f"step{number}" + (f".{micro}" if accumulation > 1 else "")
            phases(tag + ".forward", forward)
            phases(tag + ".backward", backward)
        phases(f"step{number}.optimizer", step)
        phases(f"step{number}.zero_grad", lambda: optimizer.zero_grad(set_to_none=True))

    def whole():
        for _ in range(accumulation):
            forward()
            backward()
        step()
        optimizer.zero_grad(set_to_none=True)

    return whole


def step_seconds(torch, whole):
    """The median of eight steps after three."""
    taken = []
    for _ in range(11):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        whole()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3)
    return sorted(taken[3:])[4]


def run_one(row, cudnn):
    import torch
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    properties = torch.cuda.get_device_properties(0)
    phases = Phases(torch)
    measured = {key: row[key] for key in ("framework", "versions", "case", "parameters")}
    measured["id"] = "gpu/" + row["id"]
    measured["measured_on"], measured["gpu"] = "gpu", torch.cuda.get_device_name(0)
    measured["case"]["gpu"] = {"cc": properties.major * 10 + properties.minor,
                               "sms": properties.multi_processor_count}
    if cudnn:
        measured["case"]["cudnn"] = True
    try:
        whole = train(torch, row["case"], phases)
        measured["phases"] = phases.done
        measured["step_seconds"] = step_seconds(torch, whole)
    except torch.cuda.OutOfMemoryError as error:
        if "phases" not in measured:
            measured["oom"] = str(error)
    free, total = torch.cuda.mem_get_info()
    measured["outside_pytorch"] = total - free - torch.cuda.memory_reserved()
    measured["case"]["gpu"]["bytes"] = total - measured["outside_pytorch"]
    return measured


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--cudnn", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--source", default="ladder,random")
    options = parser.parse_args()
    deadline, done = time.monotonic() + options.seconds, 0
    import torch  # noqa: F401: imported once, before processes begin; none here may touch the GPU.
    import transformers  # noqa: F401
    from transformers import AutoModelForCausalLM  # noqa: F401
    total = in_child(device_bytes, 60)
    if total is None:
        sys.exit("no GPU")
    chosen = list(rows(total, options.only, options.source.split(",")))
    chosen = chosen[::max(1, len(chosen) // options.limit)][:options.limit]  # Spread over all rows.
    with open(options.out, "w", encoding="utf-8") as out:
        for row in chosen:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            measured = in_child(lambda: run_one(row, options.cudnn), min(left, LONGEST))
            if measured is None:
                print(row["id"], "failed, or took too long", file=sys.stderr)
                continue
            out.write(json.dumps(measured) + "\n")
            out.flush()
            done += 1
    print(f"{done} of {len(chosen)} rows measured", file=sys.stderr)


if __name__ == "__main__":
    main()
