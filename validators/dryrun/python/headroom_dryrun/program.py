"""What can be told of the plan from the module that the program calls first."""

import json
import time
from typing import Any, Dict, List, Optional, Sequence


def _config(module: Any) -> Optional[Dict[str, Any]]:
    """The config.json of a transformers model, as far as JSON can hold it."""
    config = getattr(module, "config", None)
    if config is None or not hasattr(config, "to_dict"):
        return None
    return json.loads(json.dumps(config.to_dict(), default=str))


def _wrapper(module: Any) -> Optional[str]:
    names = {type(module).__name__} | {base.__name__ for base in type(module).__mro__}
    if "DistributedDataParallel" in names:
        return "ddp"
    if "DeepSpeedEngine" in names:
        return "deepspeed"
    if "FullyShardedDataParallel" in names:
        return "fsdp"
    if "FSDPModule" in names:
        return "fsdp2"
    return None


def _inner(module: Any) -> Any:
    """The user's model inside DDP, FSDP, DeepSpeed, torch.compile and PEFT."""
    for _ in range(6):
        for name in ("_orig_mod", "module", "_fsdp_wrapped_module"):
            inner = module.__dict__.get("_modules", {}).get(name)
            if inner is not None:
                break
        else:
            return module
        module = inner
    return module


def _inputs(args: Sequence[Any], kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """Shape of the token ids in the call of the module."""
    ids = kwargs.get("input_ids", args[0] if args else None)
    shape = getattr(ids, "shape", None)
    if shape is None or len(shape) != 2 or "int" not in str(ids.dtype):
        return {}
    return {"micro_batch": int(shape[0]), "sequence": int(shape[1])}


def _batch(args: Sequence[Any], kwargs: Dict[str, Any]) -> List[int]:
    """Shape of the first tensor in the call of the module: the token ids, or what stands for them."""
    for value in (kwargs.get("input_ids"), *args, *kwargs.values()):
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape) > 0:
            return [int(size) for size in shape]
    return []


def _lora(model: Any) -> Optional[Dict[str, Any]]:
    peft = getattr(model, "peft_config", None)
    if not isinstance(peft, dict):
        return None
    for adapter in peft.values():
        targets = getattr(adapter, "target_modules", None)
        listed = sorted(targets) if isinstance(targets, (set, list, tuple)) else targets
        return {"r": getattr(adapter, "r", None), "alpha": getattr(adapter, "lora_alpha", None), "targets": listed}
    return None


def recognise(session: Any, module: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> None:
    """Fills `session.program` from the first module that has parameters; later calls add nothing, unless memory ran out
    before them: then the program may have another shape."""
    found = session.program
    if session.oom is not None or not session.batch:
        session.batch = _batch(args, kwargs)
    if session.oom is not None:
        for key in [key for key in found if key not in ("optimizer", "autocast")]:
            del found[key]
    if "param_dtype" in found:
        return
    model = _inner(module)
    first = next(iter(model.parameters()), None)
    if first is None:
        return
    session.categories.see_model(module, int(time.time() * 1e6))
    found.update(_inputs(args, kwargs))
    wrapper = next((w for w in (_wrapper(module), _wrapper(model)) if w), None)
    if wrapper:
        found["wrapper"] = wrapper
    config = _config(model)
    if config is not None:
        found["model_type"] = config.get("model_type")
        found["config"] = config
    found["param_dtype"] = str(first.dtype).replace("torch.", "")
    found["checkpointing"] = bool(getattr(model, "is_gradient_checkpointing", False))
    lora = _lora(model)
    if lora:
        found["lora"] = lora


def recognise_optimizer(session: Any, optimizer: Any) -> None:
    """Notes the optimizer's class."""
    session.program.setdefault("optimizer", type(optimizer).__name__)


def recognise_autocast(session: Any, region: Any) -> None:
    """Notes the type in which an autocast region of the GPU computes; `region` is a torch.autocast."""
    if getattr(region, "device", "cuda") == "cuda" and region._enabled:
        session.program.setdefault("autocast", str(region.fast_dtype).replace("torch.", ""))
