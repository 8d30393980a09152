"""Builds the model that is recorded and runs it."""

import contextlib
import importlib.util
import json
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch import nn

from .observer import Observer, Scope

TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}


class Source:
    """What is recorded: a configuration of transformers, or a function of a file that makes a module."""

    def __init__(self, text: str):
        self.config: Dict[str, Any] = {}
        self.make: Optional[Callable[[], nn.Module]] = None
        self.batch: Optional[Callable[[int, int], Any]] = None
        self.folder = ""  # Of the configuration.
        path, _, function = text.rpartition(":")
        if path.endswith(".py"):
            if not os.path.exists(path):
                raise SystemExit(f"headroom: {path}: no such file")
            spec = importlib.util.spec_from_file_location("headroom_model", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self.make = getattr(module, function)
            self.batch = getattr(module, "make_batch", None)
            self.name = function
            return
        if os.path.isdir(text):
            text = os.path.join(text, "config.json")
        self.folder = os.path.dirname(text)
        with open(text, encoding="utf-8") as file:
            self.config = json.load(file)
        self.name = self.config.get("model_type", "")

    def configuration(self) -> Any:
        """transformers' configuration, or None if the source is a function."""
        if self.make is not None:
            return None
        from transformers import AutoConfig

        fields = {key: value for key, value in self.config.items() if key != "model_type"}
        try:
            config = AutoConfig.for_model(self.name, **fields)
        except Exception:  # JSON has neither tuples nor infinity, which some configurations ask for.
            fields = {key: tuple(float("inf") if one is None else one for one in value)
                      if isinstance(value, list) and None in value else value for key, value in fields.items()}
            config = AutoConfig.for_model(self.name, **fields)
        config.use_cache = False
        return config


def task_of(config: Any, wanted: Optional[str]) -> Tuple[str, Any]:
    """The head that a training run of this configuration has."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM, \
        AutoModelForSeq2SeqLM

    for task, kind in (("causal-lm", AutoModelForCausalLM), ("seq2seq-lm", AutoModelForSeq2SeqLM),
                       ("masked-lm", AutoModelForMaskedLM), ("image-text", AutoModelForImageTextToText)):
        if type(config) in kind._model_mapping and wanted in (None, task):
            return task, kind
    raise SystemExit(f"headroom: transformers has no {wanted or 'language model'} for model_type "
                     f"{config.model_type!r}")


@contextlib.contextmanager
def default_type(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def build(source: Source, task: Any, config: Any, parameters: str, attention: str, observer: Observer) \
        -> Tuple[nn.Module, Scope]:
    """The model on the stand-in's device, and what building it asked for."""
    import transformers

    scope = Scope("load")
    with observer, default_type(TYPES[parameters]), torch.device("cuda"):
        observer.scope = scope
        if source.make is not None:
            model = source.make()
        else:
            no_init = getattr(getattr(transformers, "initialization", None), "no_init_weights", contextlib.nullcontext)
            config._attn_implementation = attention
            with no_init():
                model = task.from_config(config, attn_implementation=attention)
            model.tie_weights()
            if any(not one.is_cuda for one in model.parameters()):  # torch.normal knows no default device.
                model.to("cuda")
        observer.settle()
    observer.scope = None
    return model, scope


def parameter_names(model: nn.Module) -> List[Tuple[torch.Tensor, str]]:
    named = [(parameter, f"p:{name}") for name, parameter in model.named_parameters()]
    return named + [(buffer, f"b:{name}") for name, buffer in model.named_buffers()]
