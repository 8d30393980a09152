"""Models, adapters, optimizers and batches of the cases: what several drivers share. Keys: tests/measured/README.md.

How PyTorch, transformers and PEFT are asked for them is in validators/torch/python, which trains plans."""
import inspect
import pathlib
import sys

import torch
import transformers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "validators" / "torch" / "python"))

from headroom_torch import models as shared

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, None: None}
AUTOCAST = {"autocast_bf16": torch.bfloat16, "autocast_fp16": torch.float16}
TASKS = {
    "image-text": transformers.AutoModelForImageTextToText,
    "masked": transformers.AutoModelForMaskedLM,
    "seq2seq": transformers.AutoModelForSeq2SeqLM,
    "speech-seq2seq": transformers.AutoModelForSpeechSeq2Seq,
    "sequence-classification": transformers.AutoModelForSequenceClassification,
    "token-classification": transformers.AutoModelForTokenClassification,
}


def model_config(case):
    """The configuration of the case's model, which keeps no keys and values."""
    keys = dict(case["config"])
    if case.get("layers"):
        keys["n_layer" if "n_layer" in keys else "num_hidden_layers"] = case["layers"]
    config = transformers.AutoConfig.for_model(keys.pop("model_type"), **keys)
    config.use_cache = False
    config._attn_implementation = case.get("attention", "sdpa")
    return config


def text_class(config):
    """The class that writes text: causal language models, else those that also look at images."""
    causal = transformers.AutoModelForCausalLM
    return causal if type(config) in causal._model_mapping else transformers.AutoModelForImageTextToText


def make_model(case, dtype, place, drawn=False):
    """The model; unless `drawn`, no values are drawn for its weights: a real run would load them."""
    config = model_config(case)
    kind = TASKS.get(case.get("task")) or text_class(config)
    model = shared.make_model(kind, config, dtype, place, drawn)
    if case.get("task") == "seq2seq":
        model.config.decoder_start_token_id = model.config.pad_token_id = 0
    return model


def checkpoint(model, kind):
    """Gradient checkpointing as Trainer switches it on; `first-N`: of the first N layers alone."""
    if kind in ("full", "full_reentrant"):
        shared.checkpoint_all(model, kind == "full_reentrant")
    elif kind and kind.startswith("first-"):
        shared.checkpoint_all(model, reentrant=False)
        for layer in layers_of(model)[int(kind.removeprefix("first-")):]:
            layer.gradient_checkpointing = False


def add_adapters(model, lora, checkpointed):
    """LoRA's adapters; under checkpointing the embedding's outputs need gradients."""
    model = shared.adapt(model, {
        "r": lora["r"], "lora_alpha": lora.get("alpha", 2 * lora["r"]), "lora_dropout": lora.get("dropout", 0.0),
        "target_modules": lora.get("targets", "all-linear"), "modules_to_save": lora.get("modules_to_save"),
        "use_dora": lora.get("dora", False), "use_rslora": lora.get("rslora", False)},
        autocast_adapter_dtype=lora.get("autocast", True))
    if checkpointed:
        model.enable_input_require_grads()
    return model


def prepare_kbit(model, checkpointing):
    """PEFT's preparation of quantised models."""
    return shared.prepare_kbit(model, checkpointing in ("full", "full_reentrant"), checkpointing == "full_reentrant")


def freeze(model, paths):
    """Does not train the parameters of some modules, such as the tower for images."""
    for path in paths:
        model.get_submodule(path).requires_grad_(False)


def layers_of(model):
    """The longest list of modules: the decoder's layers."""
    return max(shared.module_lists(model), key=len)


def make_optimizer(name, parameters):
    """The optimizer of a case by its name there; None for `none`."""
    if name == "none":
        return None
    adamw = {"adamw": {}, "adamw_foreach": {"foreach": True}, "adamw_fused": {"fused": True},
             "adamw_loop": {"foreach": False}, "torch": {}, "torch_fused": {"fused": True},
             "torch_loop": {"foreach": False}}
    if name in adamw:
        return torch.optim.AdamW(parameters, lr=1e-4, **adamw[name])
    if name in ("sgd", "sgd_momentum"):
        return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9 if name == "sgd_momentum" else 0.0)
    if name == "adafactor":
        return transformers.optimization.Adafactor(parameters, lr=1e-3, scale_parameter=False, relative_step=False)
    if name == "adafactor_torch":
        return torch.optim.Adafactor(parameters, lr=1e-3)
    import bitsandbytes

    eight_bit = {"adam8bit": "Adam8bit", "adamw8bit": "AdamW8bit", "adamw32bit": "AdamW32bit", "lion8bit": "Lion8bit",
                 "paged_adamw8bit": "PagedAdamW8bit", "paged_adamw32bit": "PagedAdamW32bit"}
    if name not in eight_bit:
        raise ValueError(f"optimizer {name} is not known here")
    return getattr(bitsandbytes.optim, eight_bit[name])(parameters, lr=1e-4)


class Both:
    """Two optimizers that step one after the other."""

    def __init__(self, *optimizers):
        self._optimizers = optimizers

    def step(self):
        for optimizer in self._optimizers:
            optimizer.step()

    def zero_grad(self, set_to_none=True):
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=set_to_none)


def make_muon(model):
    """Muon for the matrices of the layers, AdamW for the rest."""
    inside = {id(p) for p in layers_of(model).parameters() if p.requires_grad and p.ndim == 2}
    trained = [p for p in model.parameters() if p.requires_grad]
    rest = [p for p in trained if id(p) not in inside]
    matrices = torch.optim.Muon([p for p in trained if id(p) in inside], lr=1e-4)
    return Both(matrices, torch.optim.AdamW(rest, lr=1e-4)) if rest else Both(matrices)


def use_liger(model, kernels):
    """Liger's kernels of the model's family, not its losses; `kernels`: True, or what differs from that."""
    losses = {"cross_entropy": False, "fused_linear_cross_entropy": False}
    shared.apply_liger(model, **({**losses, **kernels} if isinstance(kernels, dict) else losses))


def disbelieve_guards(case):
    """In a dry run, a guard that asks whether all elements of a mask are true is taken as true. With padding it is not.
    OPT, BLOOM and mBART make a mask themselves. When their rows were recorded, transformers' `fast_all` read zeros."""
    guards = []
    if case.get("padded"):
        guards = [(torch.Tensor, "all"), (torch, "all")]
        truth = torch.Tensor.__bool__  # Of `all`, the stand-in itself says that it is true.
        torch.Tensor.__bool__ = lambda tensor: truth(tensor) and not (tensor.is_cuda and tensor.dtype == torch.bool)
    if guards or case["config"]["model_type"] in ("opt", "bloom", "mbart"):
        masks = sys.modules.get("transformers.masking_utils")
        guards += [(masks, "fast_all")] if hasattr(masks, "fast_all") else []
    for owner, name in guards:
        setattr(owner, name, inspect.unwrap(getattr(owner, name)))


def elements(parameters):
    """Their elements; of a tensor that DeepSpeed has partitioned those of the whole."""
    return sum(getattr(p, "ds_numel", p.numel()) for p in parameters)
