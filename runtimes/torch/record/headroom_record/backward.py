"""Runs autograd's nodes one by one, in the engine's order, and records what each of them asks of PyTorch."""

import heapq
import inspect
from typing import Any, Dict, List, Optional, Tuple

import torch

from .observer import Node, Observer, Scope


def _shape_and_type(function: Any, number: int) -> Tuple[Any, Any]:
    metadata = function._input_metadata[number]
    return metadata.shape, metadata.dtype


def _results_without_gradient(function: Any, known: int) -> int:
    """Results of a custom function that are no tensors: its backward gets None for each."""
    parameters = inspect.signature(function._forward_cls.backward).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
        return 0
    return max(0, len(parameters) - 1 - known)


def _runs_whole(function: Any) -> bool:
    """Whether a custom function computes all gradients, whichever are wanted."""
    return "needs_input_grad" not in inspect.getsource(function._forward_cls.backward)


def _call(function: Any, gradients: List[Optional[torch.Tensor]]) -> Tuple[Optional[torch.Tensor], ...]:
    if hasattr(function, "apply"):  # A custom function, written in Python.
        if getattr(function, "materialize_grads", True):
            given = []
            for number, gradient in enumerate(gradients):
                if gradient is None:
                    shape, dtype = _shape_and_type(function, number)
                    gradient = torch.zeros(shape, dtype=dtype, device="cuda")
                given.append(gradient)
            gradients = given
        result = function.apply(*gradients, *[None] * _results_without_gradient(function, len(gradients)))
    else:
        result = function(*gradients)
    return result if isinstance(result, tuple) else (result,)


class Backward:
    """A backward pass over recorded nodes. Each node's code goes into its instruction, under "gradient"."""

    def __init__(self, observer: Observer):
        self._observer = observer

    def run(self, loss: torch.Tensor) -> None:
        root = loss.grad_fn
        waiting = self._dependencies(root)
        gradients: Dict[Any, List[Optional[torch.Tensor]]] = {root: [torch.ones_like(loss)]}
        ready = [(-root._sequence_nr(), 0, root)]
        order = 0
        while ready:
            _, _, function = heapq.heappop(ready)
            given = gradients.pop(function, None)
            results = self._run(function, given)
            edges = function.next_functions
            for (following, number), result in zip(edges, results):
                if following is None:
                    continue
                if result is not None and not hasattr(following, "variable"):
                    self._add(gradients, following, number, result)
                waiting[following] -= 1
                if waiting[following] == 0 and not hasattr(following, "variable"):
                    order += 1
                    heapq.heappush(ready, (-following._sequence_nr(), order, following))

    @staticmethod
    def _dependencies(root: Any) -> Dict[Any, int]:
        waiting: Dict[Any, int] = {}
        seen, stack = {root}, [root]
        while stack:
            for following, _ in stack.pop().next_functions:
                if following is not None:
                    waiting[following] = waiting.get(following, 0) + 1
                    if following not in seen:
                        seen.add(following)
                        stack.append(following)
        return waiting

    @staticmethod
    def _add(gradients: Dict[Any, List[Optional[torch.Tensor]]], function: Any, number: int,
             gradient: torch.Tensor) -> None:
        """What the engine does between nodes."""
        shape, dtype = _shape_and_type(function, number)
        if tuple(gradient.shape) != tuple(shape):
            gradient = gradient.sum_to_size(tuple(shape))
        if gradient.dtype != dtype:
            gradient = gradient.to(dtype)
        slots = gradients.setdefault(function, [None] * len(function._input_metadata))
        slots[number] = gradient if slots[number] is None else slots[number] + gradient

    def _run(self, function: Any, given: Optional[List[Optional[torch.Tensor]]]) -> List[Optional[torch.Tensor]]:
        edges = function.next_functions
        if given is None or all(gradient is None for gradient in given):
            return [None] * len(edges)
        node = self._observer.nodes.get(id(function))
        if node is None or node.instruction is None or not node.outputs:
            return list(_call(function, given)) + [None] * len(edges)
        return self._record(node, given)

    def _record(self, node: Node, given: List[Optional[torch.Tensor]]) -> List[Optional[torch.Tensor]]:
        observer, function = self._observer, node.function
        scope = Scope(function.name())
        template: Dict[str, Any] = {"name": function.name(), "edges": [], "code": scope.code, "results": []}
        if node.tensors is not None and _runs_whole(function):
            template["whole"] = True
        resolve, observer.resolve = observer.resolve, self._resolver(node, scope, observer.resolve)
        observer.scope = scope
        try:
            for number, gradient in enumerate(given):
                if gradient is not None:
                    value = f"g{node.outputs.get(number, number)}"
                    observer.adopt(gradient, value, owned=False)
            results = _call(function, given)
            if node.tensors is not None:
                results = tuple(one for one, is_tensor in zip(results, node.tensors) if is_tensor)
            length = len(scope.code)
            wanted = iter(node.edges)
            for (following, _), result in zip(function.next_functions, results):
                if following is not None:
                    template["edges"].append(next(wanted))
                    template["results"].append(observer.reference(result))
            scope.closed = True
            del scope.code[length:]
        finally:
            observer.scope = None
            observer.resolve = resolve
        node.instruction[4]["gradient"] = template
        return list(results) + [None] * len(function.next_functions)

    @staticmethod
    def _resolver(node: Node, scope: Scope, outer: Any) -> Any:
        saved = {storage: index for index, storage in enumerate(node.saved)}

        def resolve(tensor: torch.Tensor) -> Any:
            index = saved.get(tensor.untyped_storage()._cdata)
            return outer(tensor) if index is None else f"s{index}"

        return resolve
