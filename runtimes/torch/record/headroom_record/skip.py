"""Layers that ran once need not run again at every size: one layer of each kind does."""

import json
from typing import Any, Dict, List, Optional, Set, Tuple

import torch
from torch import nn

from .merge import Different
from .observer import Node, Observer

_NUMBERS = ("layer_idx", "layer_id", "layer_index", "layer_number", "layer_num", "idx", "block_idx", "training")


def kind_of(layer: nn.Module) -> str:
    """What tells kinds of layers apart: classes, parameters and settings, without the layer's own number."""
    parts: List[Any] = []
    for path, module in layer.named_modules():
        settings = {name: value for name, value in sorted(module.__dict__.items())
                    if name not in _NUMBERS and not name.startswith("_") and _is_plain(value)}
        shapes = [(name, list(one.shape), str(one.dtype)) for name, one in module.named_parameters(recurse=False)]
        parts.append((path, type(module).__name__, settings, shapes))
    return json.dumps(parts)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(one) for one in value)
    return value is None or isinstance(value, (bool, int, str))


class Skipped:
    """Replaces the forward function of layers: each hands on its input, as the layer that stands for it did."""

    def __init__(self, observer: Observer, layers: Dict[nn.Module, nn.Module]):
        self._observer = observer
        self._layers = layers
        self.forms: Dict[int, Any] = {}  # How layers returned their tensors in this run.
        self.given: Dict[int, Any] = {}  # What they were given.

    def __enter__(self) -> "Skipped":
        for layer, first in self._layers.items():
            layer.forward = self._stand_in(layer, first)
        return self

    def __exit__(self, *_: Any) -> None:
        for layer in self._layers:
            del layer.forward

    def _stand_in(self, layer: nn.Module, first: nn.Module) -> Any:
        observer = self._observer

        def forward(hidden: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            form = self.forms.get(id(first))
            if form is None or self.given.get(id(first)) != self.given.get(id(layer)):
                raise Different("a layer is given another tensor than the one that stands for it")
            observer.settle()
            observer.edge_of_input(hidden)
            scope, observer.scope = observer.scope, None
            result = (hidden * 1).to(form[1])
            observer.scope = scope
            observer.adopt(result, scope.number())
            if result.grad_fn is not None:
                observer.nodes[id(result.grad_fn)] = Node(result.grad_fn, None)
            return result if form[0] is None else (result,) + tuple(None for _ in form[0][1:])

        return forward


def given_to(args: Any) -> Any:
    if args and isinstance(args[0], torch.Tensor):
        return args[0].dtype, args[0].requires_grad, tuple(args[0].shape), args[0].is_contiguous()
    return None


def form_of(result: Any) -> Optional[Tuple[Any, torch.dtype]]:
    """How a layer returned its one tensor; None: it returned something else."""
    if isinstance(result, torch.Tensor):
        return None, result.dtype
    if isinstance(result, tuple) and result and isinstance(result[0], torch.Tensor) and \
            all(one is None for one in result[1:]):
        return tuple(None for _ in result), result[0].dtype
    return None


class Groups:
    """Calls of layers that did the same in one whole run, and whose modules are of one kind."""

    def __init__(self, model: nn.Module, layers: List[nn.Module], calls: List[Tuple[str, int]],
                 forward: List[List[Any]], forms: Dict[int, Any]):
        self.model = model
        self.layers = layers
        self.of_call: List[int] = []
        self.first: List[int] = []  # The call that stands for each group.
        self.skipped: Set[int] = set()
        given = {instruction[1]: instruction for instruction in forward if instruction[0] == "layer"}
        called = [id(layer) for layer in layers]
        kinds: Dict[int, str] = {}
        known: Dict[Any, int] = {}
        for index, (layer, (_, body)) in enumerate(zip(layers, calls)):
            _, _, arguments, outputs = given[index]
            key = (body, kinds.setdefault(id(layer), kind_of(layer)), tuple(arguments[1:]))
            group = known.setdefault(key, len(known))
            self.of_call.append(group)
            if group == len(self.first):
                self.first.append(index)
            elif called.count(id(layer)) == 1 and len(outputs) == 1 and forms.get(id(layer)) is not None:
                self.skipped.add(index)

    def of(self, model: nn.Module) -> None:
        """The same layers of another model of the same configuration."""
        paths = {id(module): path for path, module in self.model.named_modules()}
        self.layers = [model.get_submodule(paths[id(layer)]) for layer in self.layers]
        self.model = model

    def skipping(self, observer: Observer) -> Skipped:
        return Skipped(observer, {self.layers[index]: self.layers[self.first[self.of_call[index]]]
                                  for index in self.skipped})
