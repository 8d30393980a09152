"""The optimizer of a plan. Learning rates change no allocation."""
import torch

_FORMS = {"foreach": {}, "fused": {"fused": True}, "loop": {"foreach": False}}  # foreach is PyTorch's default on CUDA.
_BITSANDBYTES = {
    ("adamw", "8bit"): "AdamW8bit", ("adamw", "paged-8bit"): "PagedAdamW8bit", ("adamw", "paged"): "PagedAdamW32bit",
    ("lion", "8bit"): "Lion8bit", ("lion", "paged-8bit"): "PagedLion8bit", ("lion", "paged"): "PagedLion32bit",
}


def trained_groups(model, case):
    """The optimizer's parameters: all trained ones, or two groups of them, norms and biases without decay."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if case.runtime != "deepspeed" or not case["zero"]["decay_groups"]:
        return trained
    plain = [p for name, p in model.named_parameters() if p.requires_grad and ("norm" in name or name.endswith("bias"))]
    known = {id(p) for p in plain}
    return [{"params": [p for p in trained if id(p) not in known], "weight_decay": 0.01},
            {"params": plain, "weight_decay": 0.0}]


def make_optimizer(case, parameters):
    """The optimizer; None if the plan has none, or if DeepSpeed makes it from its configuration."""
    kind, form = case["optimizer"]["kind"], case["optimizer"]["form"]
    if kind == "none" or case.deepspeed and case.deepspeed.get("optimizer"):
        return None
    if (kind, form) in _BITSANDBYTES:
        import bitsandbytes

        return getattr(bitsandbytes.optim, _BITSANDBYTES[kind, form])(parameters, lr=1e-4)
    if kind == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-4, **_FORMS[form])
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4, momentum=case["optimizer"]["momentum"], **_FORMS[form])
    if kind == "adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(parameters, lr=1e-3, scale_parameter=False, relative_step=False)
    if kind == "adafactor-torch":
        return torch.optim.Adafactor(parameters, lr=1e-3, **_FORMS[form])
    raise ValueError(f"the optimizer {kind} in the form {form} is not known here")
