"""transformers on one GPU, under DDP and under FSDP2: a plain training loop on random tokens.

It knows nothing of the dry run. What a case does not name has PyTorch's or transformers' own default.
"""
import contextlib
import os

import torch

import models
from phases import NCCL_PAUSE, Phases

with contextlib.suppress(ImportError):  # peft is imported before the first fork; older transformers lack what it needs.
    import peft  # noqa: F401

PACKAGES = ("torch", "transformers", "peft", "accelerate", "bitsandbytes", "liger_kernel")


def shard(model, case):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    parallel = case["parallel"]
    world, copies = parallel["world"], parallel.get("replicate", 1)
    mesh = (init_device_mesh("cuda", (copies, world // copies), mesh_dim_names=("replicate", "shard"))
            if copies > 1 else init_device_mesh("cuda", (world,)))
    options = {
        "mesh": mesh,
        "reshard_after_forward": parallel.get("reshard", True),
        "mp_policy": MixedPrecisionPolicy(models.DTYPES[parallel.get("param_dtype", "bf16")],
                                          models.DTYPES[parallel.get("reduce_dtype", "fp32")]),
        "offload_policy": CPUOffloadPolicy() if parallel.get("offload") else OffloadPolicy()}
    layers = models.layers_of(model)
    if case.get("checkpointing") == "full_wrapper":
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        for i, layer in enumerate(layers):
            layers[i] = checkpoint_wrapper(layer)
    for layer in layers:
        fully_shard(layer, **options)
    if parallel.get("shard_embeddings") and not case["config"].get("tie_word_embeddings", True):
        for embedding in (model.get_input_embeddings(), model.get_output_embeddings()):
            if embedding is not None:
                fully_shard(embedding, **options)
    fully_shard(model, **options)
    model.to_empty(device="cpu" if parallel.get("offload") else "cuda")
    return model


def distribute(model, case):
    parallel = case["parallel"]
    device = torch.device("cuda", torch.cuda.current_device())
    alone = {} if "RANK" in os.environ else {"store": torch.distributed.HashStore(), "rank": 0, "world_size": 1}
    torch.distributed.init_process_group(
        "nccl", device_id=device if parallel.get("eager", True) else None, **alone)
    if parallel["kind"] == "fsdp2":
        return shard(model, case)
    if parallel["kind"] != "ddp":
        raise ValueError(f"{parallel['kind']} is not known here")
    # The rows lack the first broadcast of parameters, for which DDP packs 250 MiB at a time.
    return torch.nn.parallel.DistributedDataParallel(
        model, device_ids=[device.index], init_sync=False, gradient_as_bucket_view=parallel.get("bucket_view", False),
        bucket_cap_mb=parallel.get("bucket_cap_mb", 25), static_graph=parallel.get("static_graph", False))


def load(case):
    sharded = case.get("parallel", {}).get("kind") == "fsdp2"
    model = models.make_model(case, models.DTYPES[case.get("param_dtype", "fp32")],
                              torch.device("meta" if sharded else "cuda"), drawn=True)
    kind = case.get("checkpointing")
    models_checkpointed = kind in ("full", "full_reentrant")
    if case.get("lora"):
        model = models.add_adapters(model, case["lora"], False)
    model.train()
    models.checkpoint(model, kind)
    if case.get("lora") and models_checkpointed:
        model.enable_input_require_grads()
    return distribute(model, case) if case.get("parallel") else model


def forward(model, case):
    """A batch and its loss; with it what is kept until the end of the backward pass."""
    tokens = torch.randint(0, 100, (case.get("micro_batch", 1), case.get("seq", 2048)), device="cuda")
    dtype = models.AUTOCAST.get(case.get("precision"))
    with torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
        output = model(input_ids=tokens, labels=tokens)
    loss = output.loss
    kept = [tokens] if case.get("drop_logits", True) else [tokens, output]
    pieces = case.get("accumulation", 1)
    return (loss / pieces if pieces > 1 else loss), kept


def update(optimizer, scaler, trained, clip):
    if clip:
        if scaler:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(trained, clip)
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()


def train(model, optimizer, case, phases):
    fp16 = models.AUTOCAST.get(case.get("precision")) is torch.float16
    scaler = torch.amp.GradScaler("cuda") if fp16 else None
    trained = [p for p in model.parameters() if p.requires_grad]
    pieces = case.get("accumulation", 1)
    for step in range(1, case.get("steps", 2) + 1):
        for piece in range(1, pieces + 1):
            name = f"step{step}.{piece}" if pieces > 1 else f"step{step}"
            with phases(f"{name}.forward"):
                loss, kept = forward(model, case)
            with phases(f"{name}.backward"):
                (scaler.scale(loss) if scaler else loss).backward()
                del loss, kept
        if optimizer is None:
            continue
        with phases(f"step{step}.optimizer"):
            update(optimizer, scaler, trained, case.get("clip"))
        with phases(f"step{step}.zero_grad"):
            optimizer.zero_grad(set_to_none=True)


def evaluate(model, case, phases):
    model.eval()
    with phases("evaluation"), torch.no_grad():
        tokens = torch.randint(0, 100, (case.get("micro_batch", 1), case.get("seq", 2048)), device="cuda")
        output = model(input_ids=tokens, labels=tokens)
        del output, tokens


def run(case):
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    torch.zeros(1, device="cuda")  # The rows began with a small tensor that is gone at once.
    phases = Phases(NCCL_PAUSE if case.get("parallel") else 0)
    with phases("load"):
        model = load(case)
    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    optimizer = models.make_optimizer(case.get("optimizer", "adamw"), trained)
    train(model, optimizer, case, phases)
    if case.get("eval"):
        evaluate(model, case, phases)
    return {"parameters": models.elements(parameters), "trainable": models.elements(trained), "phases": phases.rows}
