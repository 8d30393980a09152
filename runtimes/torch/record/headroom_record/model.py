"""Builds the model that is recorded and runs it."""

import contextlib
import importlib.util
import json
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type

import torch
from torch import nn

from .observer import Observer, Scope
from .untyped import without_types

TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}
CLASSIFIERS = {"sequence-classification": "AutoModelForSequenceClassification",
               "token-classification": "AutoModelForTokenClassification"}


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
            self.config = without_types(json.load(file))
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
    """The head that a training run of this configuration has; one that classifies only if it is wanted."""
    import transformers

    heads: Dict[str, Type[Any]] = {
        "causal-lm": transformers.AutoModelForCausalLM, "seq2seq-lm": transformers.AutoModelForSeq2SeqLM,
        "masked-lm": transformers.AutoModelForMaskedLM, "image-text": transformers.AutoModelForImageTextToText}
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):  # As speech_batch needs it.
        heads["speech-seq2seq"] = transformers.AutoModelForSpeechSeq2Seq
    if wanted in CLASSIFIERS:
        heads = {wanted: getattr(transformers, CLASSIFIERS[wanted])}
    for task, kind in heads.items():
        if type(config) in kind._model_mapping and wanted in (None, task):
            return task, kind
    raise SystemExit(f"headroom: transformers has no {wanted or 'language model'} for model_type "
                     f"{config.model_type!r}")


def speech_batch(config: Any, dtype: torch.dtype) -> Callable[[int, int], Dict[str, torch.Tensor]]:
    """The transcripts of recordings, and their spectrograms in the type of the parameters. The encoder takes one
    length: two frames for each of its positions."""
    def batch(micro_batch: int, sequence: int) -> Dict[str, torch.Tensor]:
        shape = (micro_batch, config.num_mel_bins, 2 * config.max_source_positions)
        return {"labels": torch.zeros(micro_batch, sequence, dtype=torch.long, device="cuda"),
                "input_features": torch.zeros(shape, dtype=dtype, device="cuda")}

    return batch


def labels_batch(task: str, labels: int) -> Callable[[int, int], Dict[str, torch.Tensor]]:
    """Tokens and the labels of a head that classifies, of which one alone means regression."""
    def batch(micro_batch: int, sequence: int) -> Dict[str, torch.Tensor]:
        ids = torch.zeros(micro_batch, sequence, dtype=torch.long, device="cuda")
        of_sequences = task == "sequence-classification"
        dtype = torch.float32 if of_sequences and labels == 1 else torch.long
        shape = (micro_batch,) if of_sequences else (micro_batch, sequence)
        return {"input_ids": ids, "labels": torch.zeros(shape, dtype=dtype, device="cuda")}

    return batch


def configuration_of(config: Any, task: str) -> Dict[str, Any]:
    """What the configuration says; of labels their number, and not their names."""
    fields = json.loads(config.to_json_string(use_diff=False))
    if task in CLASSIFIERS:
        fields["num_labels"] = config.num_labels
        fields.pop("id2label", None)
        fields.pop("label2id", None)
    return fields


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
    scope = Scope("load")
    with observer, default_type(TYPES[parameters]), torch.device("cuda"):
        observer.scope = scope
        if source.make is not None:
            model = source.make()
        else:
            config._attn_implementation = attention
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
