"""transformers on one GPU, under DDP, FSDP1 and FSDP2: a plain training loop on random tokens.

It knows nothing of the dry run. What a case does not name has PyTorch's or transformers' own default.
"""
import contextlib

import torch

import generation
import harness
import models
import pictures
import replicas
import resume
from phases import NCCL_PAUSE, Phases, Unobserved

with contextlib.suppress(ImportError):  # peft is imported before the first fork; older transformers lack what it needs.
    import peft  # noqa: F401

PACKAGES = ("torch", "transformers", "peft", "accelerate", "bitsandbytes", "liger_kernel")


def wrap_checkpoints(model):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    layers = models.layers_of(model)
    for i, layer in enumerate(layers):
        layers[i] = checkpoint_wrapper(layer)


def distribute(model, case):
    if case["parallel"]["kind"] == "ddp":
        return replicas.replicate(model, case["parallel"])
    replicas.join_group(case["parallel"])
    return harness.distribute(model, case)


def make_model(case):
    """The model where its framework wants it first: FSDP1 moves it from the host, FSDP2 shards before there is memory."""
    kind = case.get("parallel", {}).get("kind")
    if case.get("quant"):
        import quantised

        return quantised.load({**case, "dtype": case.get("param_dtype", "bf16")}, "cpu" if kind == "fsdp1" else "cuda")
    place = {"fsdp1": "cpu", "fsdp2": "meta"}.get(kind, "cuda")
    return models.make_model(case, models.DTYPES[case.get("param_dtype", "fp32")], torch.device(place),
                             drawn=place != "cpu")


def load(case):
    model = make_model(case)
    kind = case.get("checkpointing")
    checkpointed = kind in ("full", "full_reentrant")
    if case.get("liger"):
        models.use_liger(model, case["liger"])
    if case.get("prepare_kbit"):
        model = models.prepare_kbit(model, kind)
    if case.get("lora"):
        model = models.add_adapters(model, case["lora"], False)
    models.freeze(model, case.get("freeze", ()))
    model.train()
    if not case.get("prepare_kbit"):
        models.checkpoint(model, kind)
        if checkpointed and case.get("lora"):
            model.enable_input_require_grads()
    if kind == "full_wrapper":
        wrap_checkpoints(model)
    return distribute(model, case) if case.get("parallel") else model


def batch_of(case):
    """The keyword arguments of a forward pass on random tokens."""
    shape = (case.get("micro_batch", 1), case.get("seq", 2048))
    tokens = torch.randint(0, 100, shape, device="cuda")
    batch = {"input_ids": tokens, "labels": tokens}
    if case.get("task") == "sequence-classification":
        kind = torch.float32 if case["config"].get("num_labels", 2) == 1 else torch.int64
        batch["labels"] = torch.zeros(shape[0], dtype=kind, device="cuda")
    if case.get("task") == "speech-seq2seq":  # The encoder takes spectrograms of one length.
        config = models.model_config(case)
        features = (shape[0], config.num_mel_bins, 2 * config.max_source_positions)
        kind = torch.bfloat16 if case.get("param_dtype") == "bf16" else torch.float32
        batch = {"labels": tokens, "input_features": torch.zeros(features, dtype=kind, device="cuda")}
    if case.get("padded"):
        batch["attention_mask"] = torch.ones(shape, dtype=torch.int64, device="cuda")
    return batch


def forward(model, case, images):
    """A batch and its loss; with it what is kept until the end of the backward pass."""
    batch = images.batch(case) if case.get("images") else batch_of(case)
    dtype = models.AUTOCAST.get(case.get("precision"))
    with torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
        output = model(**batch)
    loss = output.loss
    kept = [batch] if case.get("drop_logits", True) else [batch, output]
    del output
    pieces = case.get("accumulation", 1)
    return (loss / pieces if pieces > 1 else loss), kept


def make_scaler(case):
    if models.AUTOCAST.get(case.get("precision")) is not torch.float16:
        return None
    if case.get("parallel", {}).get("kind") == "fsdp1":
        from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

        return ShardedGradScaler()
    return torch.amp.GradScaler("cuda")


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


def train(model, optimizer, scaler, case, phases):
    trained = [p for p in model.parameters() if p.requires_grad]
    pieces = case.get("accumulation", 1)
    images = pictures.Pictures(model, case) if case.get("images") else pictures.TextAlone()
    for step in range(1, case.get("steps", 2) + 1):
        for piece in range(1, pieces + 1):
            name = f"step{step}.{piece}" if pieces > 1 else f"step{step}"
            with phases(f"{name}.forward"), images.known():
                loss, kept = forward(model, case, images)
            with phases(f"{name}.backward"), images.known():
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
        output = model(**batch_of(case))
        del output


def start():
    """PyTorch on the rank's GPU. The rows began with a small tensor that is gone at once."""
    torch.backends.cuda.enable_cudnn_sdp(False)
    replicas.take_device()
    torch.zeros(1, device="cuda")


def make_optimizer(model, case):
    if case.get("optimizer") == "muon":
        return models.make_muon(model)
    return models.make_optimizer(case.get("optimizer", "adamw"), [p for p in model.parameters() if p.requires_grad])


def save_states(case, folder):
    start()
    model = load(case)
    optimizer = make_optimizer(model, case)
    train(model, optimizer, make_scaler(case), case, Unobserved())
    resume.save_states(model, optimizer, case, folder)


def run(case):
    models.disbelieve_guards(case)
    saved = resume.saved_states("train", case) if case.get("resume") else None
    start()
    phases = Phases(NCCL_PAUSE if case.get("parallel") else 0)
    with phases("load"):
        model = load(case)
    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    optimizer = make_optimizer(model, case)
    if saved:
        with phases("resume"):
            resume.load_states(model, optimizer, case, saved.name)
        saved.cleanup()
    scaler = make_scaler(case)
    train(model, optimizer, scaler, case, phases)
    if case.get("generate"):
        generation.generate(model, case, phases)
    if case.get("eval"):
        evaluate(model, case, phases)
    return {"parameters": models.elements(parameters), "trainable": models.elements(trained), "phases": phases.rows}
