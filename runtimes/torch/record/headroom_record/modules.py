"""Which calls of modules a recording has: linear layers, the layers of the model, and owners of parameters."""

import functools
from typing import Any, Dict, List, Optional

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from .observer import Node, Observer, place_of_caller
from .schema import DTYPES, geometry
from .skip import Skipped, form_of, given_to


def layer_modules(model: nn.Module) -> List[nn.Module]:
    """The layers that transformers marks for checkpointing, or the longest lists of like modules."""
    try:
        from transformers.modeling_layers import GradientCheckpointingLayer
    except ImportError:
        GradientCheckpointingLayer = ()
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    marked = [one for entries in lists for one in entries if isinstance(one, GradientCheckpointingLayer)]
    if marked:
        inner = {id(part) for one in marked for part in one.modules() if part is not one}
        return [one for one in marked if id(one) not in inner]
    longest = max((entries for entries in lists if len({type(one) for one in entries}) == 1), key=len, default=None)
    return list(longest) if longest is not None else []


class Calls:
    """Hooks on every module's call. They keep no tensor."""

    def __init__(self, observer: Observer, model: nn.Module, skipped: Optional[Skipped] = None):
        self._observer = observer
        self._model = model
        self._begun: List[Any] = []
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._layers = {id(module) for module in layer_modules(model)}
        self._owners = {id(module) for module in model.modules()
                        if any(True for _ in module.parameters(recurse=False))}
        self._linear: Optional[List[Any]] = None
        self._handles: List[Any] = []
        self._copy: Optional[int] = None
        self._in_layer = 0
        self.called: List[nn.Module] = []  # The layers, in the order of their calls.
        self.forms: Dict[int, Any] = {} if skipped is None else skipped.forms
        self.given: Dict[int, Any] = {} if skipped is None else skipped.given

    def __enter__(self) -> "Calls":
        hooks = nn.modules.module
        self._handles = [hooks.register_module_forward_pre_hook(self._before),
                         hooks.register_module_forward_hook(self._after)]
        self._handles += [layer.register_forward_pre_hook(self._given, with_kwargs=True)
                          for layer in layer_modules(self._model)]
        observer, original = self._observer, torch.autograd.Function.apply.__func__
        self._apply = torch.autograd.Function.__dict__["apply"]
        torch.autograd.Function.apply = classmethod(
            lambda kind, *args, **kwargs: observer.custom(functools.partial(original, kind), args, kwargs))
        self._attention = torch.nn.functional.scaled_dot_product_attention
        torch.nn.functional.scaled_dot_product_attention = self._attend
        return self

    def __exit__(self, *_: Any) -> None:
        torch.nn.functional.scaled_dot_product_attention = self._attention
        torch.autograd.Function.apply = self._apply
        for handle in self._handles:
            handle.remove()

    @staticmethod
    def _is_linear(module: nn.Module, args: Any) -> bool:
        return (type(module) is nn.Linear and "forward" not in module.__dict__ and len(args) == 1 and
                isinstance(args[0], torch.Tensor) and args[0].is_cuda)

    def _before(self, module: nn.Module, args: Any) -> None:
        observer = self._observer
        if observer.scope is None:
            return
        path = self._paths.get(id(module))
        if path is None:
            return
        observer.settle()
        if self._is_linear(module, args):
            given = observer.reference(args[0])
            observer.edge_of_input(args[0])
            self._linear = [id(module), self._copied(args[0], given), observer.scope]
            observer.scope = None
        elif id(module) in self._layers and not self._in_layer:
            self._in_layer += 1
            self.called.append(module)
            self.given[id(module)] = given_to(args)
            first = args[0] if args and isinstance(args[0], torch.Tensor) else None
            self._begun = ["#begin", path, observer.reference(first), []]
            observer.scope.emit(self._begun, place_of_caller())
        elif id(module) in self._owners:
            observer.scope.emit(["enter", path], place_of_caller())

    def _given(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Everything that a layer is given: a checkpoint keeps it alive, whether its code reads it or not."""
        observer = self._observer
        if observer.scope is None or not self.called or self.called[-1] is not module or self._in_layer != 1:
            return
        for one in tree_leaves((args, kwargs)):
            if isinstance(one, torch.Tensor) and one.is_cuda:
                self._begun[3].append(observer.reference(one))

    def _attend(self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Any:
        """Attention is one instruction: which kernel runs depends on the device and on alignments."""
        observer = self._observer

        def run() -> Any:
            return self._attention(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal,
                                   scale=scale, enable_gqa=enable_gqa)

        if observer.scope is None or any(one.dim() != 4 for one in (query, key, value)):
            return run()
        observer.settle()
        tensors = [query, key, value] + ([attn_mask] if attn_mask is not None else [])
        inputs = [observer.reference(one) for one in tensors]
        for one in tensors:
            observer.edge_of_input(one)
        del tensors
        scope, observer.scope = observer.scope, None
        try:
            result = run()
        finally:
            observer.scope = scope
        made = scope.number()
        instruction = ["op", "scaled_dot_product_attention", inputs,
                       [[made, DTYPES[result.dtype], tuple(result.shape)]],
                       {"scalars": {"dropout_p": dropout_p, "is_causal": is_causal, "enable_gqa": enable_gqa,
                                    "mask_strided": attn_mask is not None and attn_mask.stride(-1) != 1,
                                    "rows_first": [one.stride(1) < one.stride(2) for one in (query, key, value)]}}]
        scope.emit(instruction, place_of_caller())
        scope.made[made] = instruction
        observer.adopt(result, made)
        if result.grad_fn is not None:
            observer.nodes[id(result.grad_fn)] = Node(result.grad_fn, None)
        return result

    def _after(self, module: nn.Module, args: Any, result: Any) -> None:
        observer = self._observer
        path = self._paths.get(id(module))
        if path is None:
            return
        if self._linear is not None and self._linear[0] == id(module):
            _, given, observer.scope = self._linear
            self._linear = None
            self._linear_made(path, given, result)
            return
        if observer.scope is None:
            return
        observer.settle()
        if id(module) in self._layers and self._in_layer == 1:
            self._in_layer -= 1
            self.forms[id(module)] = form_of(result)
            first = result if isinstance(result, torch.Tensor) else result[0] if isinstance(result, tuple) else None
            observer.scope.emit(["#end", path, observer.reference(first) if isinstance(first, torch.Tensor) else None])
        elif id(module) in self._owners and not (id(module) in self._layers):
            observer.scope.emit(["leave", path])

    def _copied(self, tensor: torch.Tensor, given: Any) -> Any:
        """A product reads rows: of a view that has none, PyTorch makes a copy, which autograd then saves."""
        if tensor.dim() < 3 or tensor.is_contiguous():
            return given
        observer, scope = self._observer, self._observer.scope
        observer.scope = None
        with torch.no_grad():
            rows = tensor.detach().reshape(-1, tensor.shape[-1])
            copied = rows.untyped_storage()._cdata != tensor.untyped_storage()._cdata
        observer.scope = scope
        if not copied:
            return given
        value = scope.number()
        extra: Dict[str, Any] = {}
        if tensor.requires_grad:
            extra["gradient"] = {"name": "CloneBackward0", "edges": [0], "code": [], "results": ["g0"]}
        scope.emit(["op", "clone", [given], [[value, DTYPES[tensor.dtype], tuple(tensor.shape)]], extra])
        self._copy = value
        return value

    def _linear_made(self, path: str, given: Any, result: torch.Tensor) -> None:
        observer, scope = self._observer, self._observer.scope
        value = scope.number()
        instruction = ["linear", path, given, [value, DTYPES[result.dtype], tuple(result.shape)]]
        scope.emit(instruction, place_of_caller())
        scope.made[value] = instruction
        if self._copy is not None:
            scope.drop(self._copy)
            self._copy = None
        record = observer.adopt(result, value)
        # With a bias, the result is a view of rows. A write into it belongs to the node of the rows.
        for one in (result, result._base):
            if one is not None and one.grad_fn is not None:
                record.values[geometry(one)] = value
                observer.nodes[id(one.grad_fn)] = Node(one.grad_fn, None)
