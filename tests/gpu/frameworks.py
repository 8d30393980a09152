#!/usr/bin/env python3
"""Runs rows of bitsandbytes, Liger, DeepSpeed and torchtitan on the GPU of this machine, with real kernels.

frameworks.py OUT.jsonl [--limit N] [--seconds T] [--only TEXT]

The rows are those of tests/measured/gpu_h100 and gpu_h200 whose packages are installed; the lines have their form, for
`headroom validate measured OUT.jsonl`. Each runs in a process of its own, which imports the packages: some ask the GPU
when they are imported. A compiled row runs twice, the second time with what was compiled.
Needs: PyTorch, transformers; bitsandbytes, peft, liger-kernel, deepspeed, torchtitan (tests/measured/README.md names versions).
"""
import argparse
import contextlib
import gzip
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "validators" / "torch"))

from measure import Phases, device_bytes, in_child, step_seconds  # noqa: E402

ROWS = pathlib.Path(__file__).resolve().parent.parent / "measured"
LONGEST = 150  # Seconds for one row: QLoRA of 70 billion parameters takes 50, a compiled one 50.
NEEDS = {"transformers+bitsandbytes": ("bitsandbytes", "peft"), "deepspeed": ("deepspeed",), "torchtitan": ("torchtitan",)}


def rows(only):
    for name in ("gpu_h100", "gpu_h200"):
        with gzip.open(ROWS / f"{name}.jsonl.gz", "rt") as lines:
            for line in lines:
                row = json.loads(line)
                needs = NEEDS.get(row["framework"], ("none of these",))
                if "liger" in row["case"]:
                    needs += ("liger_kernel",)
                if only in row["id"] and all(importlib.util.find_spec(need) for need in needs):
                    yield row


def randomise(torch, model):
    """Weights as measure.py gives them; adapters as PEFT made them."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shard = getattr(parameter, "ds_tensor", parameter).data
            if "lora_" not in name and shard.is_floating_point():
                shard.zero_() if name.endswith("bias") else shard.fill_(1) if "norm" in name else shard.normal_(0, 0.02)


def configuration(case):
    import transformers
    config = dict(case["config"])
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    made.use_cache = False
    return made


@contextlib.contextmanager
def default_dtype(torch, dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


def quantised(torch, case):
    """A model whose linear layers are quantised weight by weight on their way to the GPU."""
    import accelerate
    import bitsandbytes
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig
    from transformers.initialization import no_init_weights
    from transformers.integrations.bitsandbytes import replace_with_bnb_linear
    quant = case["quant"]
    with default_dtype(torch, torch.bfloat16), no_init_weights(), accelerate.init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(configuration(case), attn_implementation=case.get("attention", "sdpa"))
    model.tie_weights()
    asked = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=quant.get("type", "nf4"),
                               bnb_4bit_use_double_quant=quant.get("double", False), bnb_4bit_compute_dtype=torch.bfloat16)
    model = replace_with_bnb_linear(model, modules_to_not_convert=["lm_head"], quantization_config=asked)
    for module in list(model.modules()):
        for key, parameter in list(module._parameters.items()):
            if parameter is None or parameter.device.type != "meta":
                continue
            weight = torch.empty(parameter.shape, dtype=torch.bfloat16, device="cuda")
            weight.normal_(0, 0.02) if weight.dim() > 1 else weight.fill_(1)
            packed = type(parameter).__name__ == "Params4bit"
            module._parameters[key] = (bitsandbytes.nn.Params4bit(weight, requires_grad=False, **parameter.__dict__).to("cuda")
                                       if packed else torch.nn.Parameter(weight))
            del weight
    model.tie_weights()
    model.to("cuda")
    model.is_loaded_in_4bit, model.quantization_method = True, "bitsandbytes"
    model.config.quantization_config = asked
    return model


def plain(torch, case, device="cuda"):
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[case.get("dtype", "bf16")]
    with default_dtype(torch, dtype), no_init_weights(), torch.device(device) if device else contextlib.nullcontext():
        model = AutoModelForCausalLM.from_config(configuration(case), attn_implementation=case.get("attention", "sdpa"))
    model.tie_weights()
    return model


def adapted(case, model):
    import peft
    checkpoints = case.get("checkpointing", "none").startswith("full")
    how = {"use_reentrant": case.get("checkpointing") == "full_reentrant"}
    if case.get("prepare_kbit"):
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpoints,
                                                     gradient_checkpointing_kwargs=how)
    elif checkpoints:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)
    if case.get("peft"):
        asked = dict(case["peft"])
        asked.pop("peft_type")
        model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **asked))
    return model.train()


def optimizer_of(torch, case, parameters):
    name = case.get("optimizer", "torch")
    if name in ("torch", "torch_fused"):
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True if name == "torch_fused" else None)
    import bitsandbytes
    made = {"adamw8bit": "AdamW8bit", "paged_adamw8bit": "PagedAdamW8bit", "paged_adamw32bit": "PagedAdamW32bit"}[name]
    return getattr(bitsandbytes.optim, made)(parameters, lr=1e-4)


def run_peft(torch, case, phases):
    quant = bool(case.get("quant"))
    model = phases("load", lambda: quantised(torch, case) if quant else plain(torch, case))
    model = phases("peft", lambda: adapted(case, model)) if quant or case.get("peft") else adapted(case, model)
    if case.get("liger"):
        from liger_kernel.transformers import _apply_liger_kernel_to_instance
        _apply_liger_kernel_to_instance(model=model)
    if not quant:
        randomise(torch, model)
    optimizer = optimizer_of(torch, case, [p for p in model.parameters() if p.requires_grad])
    shape, kept = (case.get("micro_batch", 1), case.get("seq", 2048)), {}

    def forward():
        ids = torch.randint(0, model.config.vocab_size, shape, device="cuda")
        batch = {"input_ids": ids, "labels": ids.clone()}
        kept["batch"] = batch  # It lives until the next one.
        kept["loss"] = model(**batch).loss

    def backward():
        kept.pop("loss").backward()

    def whole():
        forward()
        backward()
        optimizer.step()
        optimizer.zero_grad()

    for number in range(1, case.get("steps", 2) + 1):
        phases(f"step{number}.forward", forward)
        phases(f"step{number}.backward", backward)
        phases(f"step{number}.optimizer", optimizer.step)
        optimizer.zero_grad()
    return whole, sum(p.numel() for p in model.parameters())


def run_deepspeed(torch, case, phases):
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29999",
                      DS_ACCELERATOR="cuda")
    import torch.distributed as dist
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda:0"))
    import deepspeed
    zero = {"stage": case.get("zero", 2), **case.get("ds", {}).get("zero_optimization", {})}
    config = {"train_micro_batch_size_per_gpu": case.get("micro_batch", 1), "zero_optimization": zero,
              "gradient_accumulation_steps": case.get("accumulation", 1), case.get("dtype", "bf16"): {"enabled": True},
              "gradient_clipping": case.get("clip", 1.0), "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False}

    def build():
        shards = zero["stage"] == 3
        with deepspeed.zero.Init(config_dict_or_path=config, dtype=torch.bfloat16) if shards else contextlib.nullcontext():
            model = plain(torch, case, None if shards else "cuda")
        if case.get("checkpointing") == "full":
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model.train()

    def make_optimizer():
        if case.get("optimizer") == "cpu":
            return deepspeed.ops.adam.DeepSpeedCPUAdam(model.parameters(), lr=1e-4)
        return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True if case.get("optimizer") == "torch_fused" else None)

    model = phases("model", build)
    count = sum(getattr(p, "ds_numel", p.numel()) for p in model.parameters())
    optimizer = phases("optimizer_object", make_optimizer)
    randomise(torch, model)
    engine = phases("deepspeed.initialize", lambda: deepspeed.initialize(
        model=model, optimizer=optimizer, config=config, dist_init_required=False)[0])
    shape, kept = (case.get("micro_batch", 1), case.get("seq", 2048)), {}

    def forward():
        kept["batch"] = ids = torch.randint(0, model.config.vocab_size, shape, device="cuda")
        kept["loss"] = engine(input_ids=ids, labels=ids).loss

    def backward():
        engine.backward(kept["loss"])
        kept.pop("loss")

    accumulation = case.get("accumulation", 1)
    for number in range(1, case.get("steps", 2) + 1):
        for micro in range(1, accumulation + 1):
            tag = f"step{number}" + (f".{micro}" if accumulation > 1 else "")
            phases(tag + ".forward", forward)
            phases(tag + ".backward", backward)
            phases(tag + (".step" if micro == accumulation else ".step_noop"), engine.step)

    def whole():
        for _ in range(accumulation):
            forward()
            backward()
            engine.step()

    return whole, count


def run_peft_or_deepspeed(row):
    import torch
    torch.backends.cuda.enable_cudnn_sdp(False)
    phases = Phases(torch)
    whole, count = (run_deepspeed if row["framework"] == "deepspeed" else run_peft)(torch, row["case"], phases)
    return {**measured_by(torch, row), "parameters": count, "phases": phases.done, "step_seconds": step_seconds(torch, whole)}


def run_titan(row):
    """A Trainer of torchtitan; `step_seconds` is the median of the steps after the third, each synchronised."""
    case = row["case"]
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="localhost", MASTER_PORT="29500")
    os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = case.get("alloc_conf", "expandable_segments:True")
    import dataclasses
    import torch
    import torch.distributed as dist
    import torchtitan.models.attention as attention
    import torchtitan.train as train
    from torch.nn.attention import SDPBackend
    from torchtitan.config import JobConfig
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch._C._set_sdp_use_cudnn = lambda *ignored: None  # Nobody turns it on again.
    attention.ScaledDotProductAttentionWrapper.sdpa_backends = [
        SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    config = JobConfig()
    config.model.name, config.model.flavor = case["model"], case["flavor"]
    config.model.converters = case.get("converters", [])
    config.training.local_batch_size, config.training.seq_len, config.training.steps = case["batch"], case["seq"], 9
    config.activation_checkpoint.mode = case.get("ac", "none")
    config.activation_checkpoint.selective_ac_option = str(case.get("ac_option", "op"))
    config.compile.enable = bool(case.get("compile"))
    config.optimizer.implementation = case.get("opt_impl", "fused")
    config.checkpoint.enable = False
    for path, value in case.get("set", {}).items():
        *folders, last = path.split(".")
        target = config
        for folder in folders:
            target = getattr(target, folder)
        setattr(target, last, value)

    def batches(*ignored, **also_ignored):
        class Loader:
            def __iter__(self):
                while True:
                    tokens = torch.randint(1, 100000, (case["batch"], case["seq"] + 1))
                    yield {"input": tokens[:, :-1].contiguous()}, tokens[:, 1:].contiguous()
        return Loader()

    given = train.train_spec_module.get_train_spec

    def specification(name):
        found = given(name)
        arguments = dict(found.model_args)
        arguments[case["flavor"]] = dataclasses.replace(arguments[case["flavor"]], **case.get("model_args", {}))
        return dataclasses.replace(found, model_args=arguments, build_tokenizer_fn=lambda *a, **k: None,
                                   build_dataloader_fn=batches)

    train.train_spec_module.get_train_spec = specification
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda:0"))
    done, ends = [], []

    class Trainer(train.Trainer):
        def train_step(self, data):
            super().train_step(data)
            torch.cuda.synchronize()
            ends.append(time.perf_counter())
            stats = torch.cuda.memory_stats()
            done.append({"phase": f"step{self.step}", "allocated_after": stats["allocated_bytes.all.current"],
                         "peak_allocated": stats["allocated_bytes.all.peak"], "peak_active": stats["active_bytes.all.peak"],
                         "peak_reserved": stats["reserved_bytes.all.peak"],
                         "reserved_after": stats["reserved_bytes.all.current"], "retries": stats["num_alloc_retries"]})
            torch.cuda.reset_peak_memory_stats()

    train.time.sleep = lambda *ignored: None
    import torchtitan.components.metrics as metrics
    metrics.DeviceMemoryMonitor.reset_peak_stats = lambda self: None
    trainer = Trainer(config)
    trainer.train()
    return {**measured_by(torch, row), "phases": done[:row["case"].get("steps", 3)],
            "step_seconds": statistics.median(b - a for a, b in zip(ends[2:], ends[3:]))}


def measured_by(torch, row):
    free, total = torch.cuda.mem_get_info()
    outside = total - free - torch.cuda.memory_reserved()
    case = {**row["case"], "gpu": {"bytes": total - outside}}
    if row["framework"] == "torchtitan":
        case["gpu_bytes"] = case.pop("gpu")["bytes"]
    return {"id": row["id"], "framework": row["framework"], "versions": {**row["versions"], "torch": torch.__version__},
            "measured_on": "gpu", "gpu": torch.cuda.get_device_name(0), "case": case, "outside_pytorch": outside,
            **{key: row[key] for key in ("parameters", "local_parameters") if key in row}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    deadline, done = time.monotonic() + options.seconds, 0
    if in_child(device_bytes, 60) is None:
        sys.exit("no GPU")
    chosen = list(rows(options.only))[:options.limit]
    with open(options.out, "w", encoding="utf-8") as out:
        for row in chosen:
            measured = None
            for _ in range(2 if row["case"].get("compile") else 1):
                left = deadline - time.monotonic()
                if left > 0:
                    run = run_titan if row["framework"] == "torchtitan" else run_peft_or_deepspeed
                    measured = in_child(lambda: run(row), min(left, LONGEST))
            if measured is None:
                print(row["id"], "failed, or out of time", file=sys.stderr)
                continue
            out.write(json.dumps(measured) + "\n")
            out.flush()
            done += 1
    print(f"{done} of {len(chosen)} rows measured", file=sys.stderr)


if __name__ == "__main__":
    main()
