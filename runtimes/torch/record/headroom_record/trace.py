"""Runs a model forward and backward at one size, and keeps what it did."""

from typing import Any, Dict, List, Optional, Set, Tuple

import torch

from . import blocks, fold, quantised
from .backward import Backward
from .merge import Different
from .modules import Calls
from .observer import Observer, Scope
from .schema import DTYPES, geometry
from .skip import Groups, Skipped


class Trace:
    """What one run did."""

    def __init__(self, point: Tuple[int, int], scope: Scope, folded: fold.Folded):
        self.point = point
        self.inputs = scope.inputs
        self.folded = folded


class Run:
    """Forward and backward passes of one model, at one size each."""

    def __init__(self, observer: Observer, model: Any, names: List[Tuple[torch.Tensor, str]],
                 autocast: Optional[torch.dtype], batch: Any, groups: Optional[Groups],
                 linears: Optional[str] = None):
        self._observer = observer
        self._batch = batch
        self._model = model
        self._names = names
        self._autocast = autocast
        self._linears = linears
        self._storages = {tensor.untyped_storage()._cdata: (geometry(tensor), name) for tensor, name in names}
        self.groups = groups  # Known from the first whole run, or from that of another mode.
        self.whole = False  # Whether every layer runs at every size.

    def _resolve(self, tensor: torch.Tensor) -> Any:
        return self._storages.get(tensor.untyped_storage()._cdata, (None, None))[1]

    def trace(self, point: Tuple[int, int]) -> Trace:
        """The first run is of all layers; the others are of one layer of each group."""
        skipped = set() if self.whole or self.groups is None else self.groups.skipped
        if skipped:
            with self.groups.skipping(self._observer) as skipping:
                scope, calls = self.run(*point, skipping)
        else:
            scope, calls = self.run(*point)
        folded = fold.fold(scope.code, scope.places, skipped, len(scope.inputs))
        if self.groups is None:
            self.groups = Groups(self._model, calls.called, folded.layers, folded.forward, calls.forms)
        else:
            for instruction in folded.forward:
                if instruction[0] == "layer" and instruction[1] in skipped:
                    first = self.groups.first[self.groups.of_call[instruction[1]]]
                    like = next(one for one in folded.forward if one[0] == "layer" and one[1] == first)
                    if len(like[3]) != 1:
                        raise Different("a layer hands on more than its hidden state")
                    instruction[2] += like[2][1:]
        return Trace(point, scope, folded)

    def run(self, micro_batch: int, sequence: int, skipped: Optional[Skipped] = None) -> Tuple[Scope, Calls]:
        observer = self._observer
        scope = Scope("forward")
        observer.resolve = self._resolve
        observer.nodes, observer.saved, observer.windows = {}, {}, []
        observer._edges, observer._keys, observer._pending = {}, {}, []
        inputs = self._inputs(micro_batch, sequence)
        calls = Calls(observer, self._model, skipped)
        blocks.start()
        with observer, calls:
            observer.scope, observer.with_nodes = scope, True
            for tensor, name in self._names:
                observer.name(tensor, name)
            for name, tensor in inputs.items():
                if isinstance(tensor, torch.Tensor) and tensor.is_cuda and \
                        getattr(tensor, "_headroom_value", (None,))[0] is not scope:
                    scope.inputs.append([name, DTYPES[tensor.dtype], tuple(tensor.shape)])
                    observer.adopt(tensor, scope.number(), owned=False)
            loss = self._forward(inputs, scope)
            observer.scope, observer.with_nodes = None, False
            with torch.no_grad():
                Backward(observer).run(loss)
        blocks.write_inside(observer.windows)
        for instruction in scope.code:
            if instruction[0] in ("op", "node"):
                node = instruction[4].pop("node", None)
                if node is not None and "gradient" not in instruction[4]:  # It keeps what it saved, and never runs.
                    instruction[4]["gradient"] = {"name": node.function.name(), "edges": list(node.edges),
                                                  "code": [], "results": [None] * len(node.edges)}
            elif instruction[0] == "drop":  # In the order in which they were made: Python's own may be by address.
                instruction[1:] = sorted(instruction[1:], key=str) if any(
                    isinstance(one, str) for one in instruction[1:]) else sorted(instruction[1:])
        observer.nodes, observer.saved = {}, {}
        return scope, calls

    @staticmethod
    def _keep_casts(scope: Scope) -> None:
        """Casts of parameters that autocast keeps until it ends: they say so, and nothing drops them."""
        end = next(at for at in range(len(scope.code) - 1, -1, -1) if scope.code[at][0] == "#autocast ends")
        dropped = [one for instruction in scope.code[end + 1:] for one in instruction[1:]]
        del scope.code[end:], scope.places[end:]
        for one in dropped:
            made = scope.made.get(one)
            if made is not None and made[1] == "_to_copy" and str(made[2][0]).startswith("p:"):
                made[4]["kept"] = "autocast"
            else:
                scope.drop(one)

    def _inputs(self, micro_batch: int, sequence: int) -> Dict[str, Any]:
        if self._batch is not None:
            return self._batch(micro_batch, sequence)
        ids = torch.zeros(micro_batch, sequence, dtype=torch.long, device="cuda")
        return {"input_ids": ids, "labels": ids}

    def _forward(self, inputs: Dict[str, Any], scope: Scope) -> torch.Tensor:
        observer = self._observer
        hooks = torch.autograd.graph.saved_tensors_hooks(observer.pack, observer.unpack)
        with hooks, quantised.around(self._model, self._linears):
            if self._autocast is not None:
                with torch.autocast("cuda", dtype=self._autocast):
                    result = self._model(**inputs)
                    scope.emit(["#autocast ends"])
                self._keep_casts(scope)
            else:
                result = self._model(**inputs)
        observer.settle()
        loss = result if isinstance(result, torch.Tensor) else result["loss"]
        logits = result.get("logits") if isinstance(result, dict) else None
        values = [observer.reference(loss), observer.reference(logits)]
        del logits
        returned = ["result"] + values
        scope.emit(returned)
        end = len(scope.code)
        del result
        returned.extend(one for instruction in scope.code[end:] for one in instruction[1:] if one not in values)
        scope.closed = True
        del scope.code[end:], scope.places[end:]
        if observer.values is not None:
            _keep(scope, {one for one in returned[1:] if isinstance(one, int)})
        return loss


def _keep(scope: Scope, returned: Set[int]) -> None:
    """Values that live on although nothing returns them: a module keeps them for its next call. That they are kept is
    written where they are made, for there the module lets go of those of the call before."""
    given = set(range(len(scope.inputs)))
    kept = {record.owner for record in scope.storages.values() if isinstance(record.owner, int)} - returned - given
    layers = 0
    for at in range(len(scope.code) - 1, -1, -1):
        instruction = scope.code[at]
        layers += {"#end": 1, "#begin": -1}.get(instruction[0], 0)
        for value in kept.intersection(fold.made(instruction)) if layers == 0 else ():
            scope.code.insert(at + 1, ["op", "keep", [value], [], {}])
            scope.places.insert(at + 1, scope.places[at])
