"""An ordinary training script: `python train.py CASE.json` trains the model that a row of tests/measured
describes under "case", on random tokens. It knows nothing of the dry run.

The keys of a case: tests/measured/README.md. What a case does not name has PyTorch's or
transformers' own default.
"""
import contextlib
import json
import os
import sys

import torch
import transformers
from transformers.initialization import no_init_weights

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
AUTOCAST = {"autocast_bf16": torch.bfloat16, "autocast_fp16": torch.float16}


def build_model(case):
    """The model with random weights: on the device, or without memory when FSDP2 shards it first."""
    keys = dict(case["config"])
    config = transformers.AutoConfig.for_model(keys.pop("model_type"), **keys)
    config.use_cache = False
    attention = case.get("attention", "sdpa")
    config._attn_implementation = attention
    classes = {"masked": transformers.AutoModelForMaskedLM, "seq2seq": transformers.AutoModelForSeq2SeqLM}
    model_class = classes.get(case.get("task"), transformers.AutoModelForCausalLM)
    place = "meta" if case.get("parallel", {}).get("kind") == "fsdp2" else "cuda"
    usual = torch.get_default_dtype()
    torch.set_default_dtype(DTYPES[case.get("param_dtype", "fp32")])
    # Weights would be loaded in a real run: none are drawn.
    with torch.device(place), no_init_weights():
        model = model_class.from_config(config, attn_implementation=attention)
    torch.set_default_dtype(usual)
    model.tie_weights()
    return model


def add_adapters(model, lora):
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(
        task_type="CAUSAL_LM", r=lora["r"], lora_alpha=lora.get("alpha", 2 * lora["r"]),
        lora_dropout=lora.get("dropout", 0.0), target_modules=lora.get("targets", "all-linear"),
        use_dora=lora.get("dora", False)))


def layers_of(model):
    """The longest list of modules: the decoder's layers."""
    lists = [m for name, m in model.named_modules()
             if isinstance(m, torch.nn.ModuleList) and "expert" not in name]
    return max(lists, key=len)


def shard(model, case):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    parallel = case["parallel"]
    world, copies = parallel["world"], parallel.get("replicate", 1)
    mesh = (init_device_mesh("cuda", (copies, world // copies), mesh_dim_names=("replicate", "shard"))
            if copies > 1 else init_device_mesh("cuda", (world,)))
    options = dict(
        mesh=mesh, reshard_after_forward=parallel.get("reshard", True),
        mp_policy=MixedPrecisionPolicy(DTYPES.get(parallel.get("param_dtype", "bf16")),
                                       DTYPES.get(parallel.get("reduce_dtype", "fp32"))),
        offload_policy=CPUOffloadPolicy() if parallel.get("offload") else OffloadPolicy())
    layers = layers_of(model)
    if case.get("checkpointing") == "full_wrapper":
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        for i, layer in enumerate(layers):
            layers[i] = checkpoint_wrapper(layer)
    for layer in layers:
        fully_shard(layer, **options)
    if parallel.get("shard_embeddings") and not case["config"].get("tie_word_embeddings", True):
        for embedding in (model.get_input_embeddings(), model.get_output_embeddings()):
            fully_shard(embedding, **options)
    fully_shard(model, **options)
    model.to_empty(device="cpu" if parallel.get("offload") else "cuda")
    return model


def distribute(model, case):
    parallel = case["parallel"]
    eager = torch.device("cuda:0") if parallel.get("eager", True) else None
    torch.distributed.init_process_group("nccl", device_id=eager)
    if parallel["kind"] == "fsdp2":
        return shard(model, case)
    return torch.nn.parallel.DistributedDataParallel(
        model, device_ids=[0], gradient_as_bucket_view=parallel.get("bucket_view", False),
        bucket_cap_mb=parallel.get("bucket_cap_mb", 25), static_graph=parallel.get("static_graph", False))


def make_optimizer(name, parameters):
    if name == "none":
        return None
    if name.startswith("adamw"):
        kind = {"adamw": {}, "adamw_foreach": {"foreach": True}, "adamw_fused": {"fused": True},
                "adamw_loop": {"foreach": False}}[name]
        return torch.optim.AdamW(parameters, lr=1e-4, **kind)
    if name.startswith("sgd"):
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9 if name == "sgd_momentum" else 0.0)
    if name == "adafactor":
        return transformers.optimization.Adafactor(parameters, lr=1e-3, scale_parameter=False,
                                                   relative_step=False)
    if name == "adafactor_torch":
        return torch.optim.Adafactor(parameters, lr=1e-3)
    raise ValueError(f"optimizer {name} is not known here")


def train(model, optimizer, case):
    autocast = AUTOCAST.get(case.get("precision"))
    scaler = torch.amp.GradScaler("cuda") if autocast is torch.float16 else None
    trained = [p for p in model.parameters() if p.requires_grad]
    shape = (case.get("micro_batch", 1), case.get("seq", 2048))
    pieces = case.get("accumulation", 1)
    for _ in range(case.get("steps", 2)):
        for _ in range(pieces):
            tokens = torch.randint(0, 100, shape, device="cuda")
            inputs = dict(input_ids=tokens, labels=tokens)
            with torch.autocast("cuda", dtype=autocast) if autocast else contextlib.nullcontext():
                output = model(**inputs)
            loss = output.loss
            if case.get("drop_logits", True):
                del output
            if pieces > 1:
                loss = loss / pieces
            (scaler.scale(loss) if scaler else loss).backward()
            del loss, tokens, inputs
            output = None
        if optimizer is None:
            continue
        if case.get("clip"):
            if scaler:
                scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(trained, case["clip"])
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        case = json.load(file)
    if "LOCAL_RANK" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.zeros(1, device="cuda")  # The rows began with a small tensor that is gone at once.
    model = build_model(case)
    if case.get("lora"):
        model = add_adapters(model, case["lora"])
    model.train()
    kind = case.get("checkpointing")
    if kind in ("full", "full_reentrant"):
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": kind == "full_reentrant"})
        if case.get("lora"):
            model.enable_input_require_grads()
    if case.get("parallel"):
        model = distribute(model, case)
    optimizer = make_optimizer(case.get("optimizer", "adamw"),
                               [p for p in model.parameters() if p.requires_grad])
    train(model, optimizer, case)


main()
