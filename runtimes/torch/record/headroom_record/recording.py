"""Runs a model at several sizes and puts the recording together."""

import json
import os
import platform
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from . import blocks, fold, loops, write
from .backward import Backward
from .merge import Different, merge
from .model import TYPES, Source, build, parameter_names, task_of
from .modules import Calls
from .observer import Observer, Scope
from .schema import DTYPES, geometry
from .sizes import Sizes, value_of
from .skip import Groups

_POINTS = ((2, 512), (3, 320), (2, 192), (5, 256), (3, 448))
_ODD = ((3, 333), (2, 509), (2, 187), (5, 251), (3, 443))
_ALONE = ((1, 320), (1, 512), (1, 192), (1, 448))
_ALONE_ODD = ((1, 333), (1, 509), (1, 187), (1, 443))
_MULTIPLE = 64


class Refused(Exception):
    """The model cannot be recorded; the text says why."""


class Trace:
    """What one run did."""

    def __init__(self, point: Tuple[int, int], folded: fold.Folded):
        self.point = point
        self.folded = folded


class Run:
    """Forward and backward passes of one model, at one size each."""

    def __init__(self, observer: Observer, model: Any, names: List[Tuple[torch.Tensor, str]],
                 autocast: Optional[torch.dtype]):
        self._observer = observer
        self._model = model
        self._names = names
        self._autocast = autocast
        self._storages = {tensor.untyped_storage()._cdata: (geometry(tensor), name) for tensor, name in names}
        self.groups: Optional[Groups] = None
        self.whole = False  # Whether every layer runs at every size.

    def _resolve(self, tensor: torch.Tensor) -> Any:
        return self._storages.get(tensor.untyped_storage()._cdata, (None, None))[1]

    def trace(self, point: Tuple[int, int]) -> Trace:
        """The first run is of all layers; the others are of one layer of each group."""
        skipped = set() if self.whole or self.groups is None else self.groups.skipped
        if skipped:
            with self.groups.skipping(self._observer):
                scope, calls = self.run(*point)
        else:
            scope, calls = self.run(*point)
        folded = fold.fold(scope.code, scope.places, skipped)
        if self.groups is None:
            self.groups = Groups(self._model, calls.called, folded.layers, folded.forward, calls.forms)
        else:
            for instruction in folded.forward:
                if instruction[0] == "layer" and instruction[1] in skipped:
                    first = self.groups.first[self.groups.of_call[instruction[1]]]
                    like = next(one for one in folded.forward if one[0] == "layer" and one[1] == first)
                    instruction[2] += like[2][1:]
        return Trace(point, folded)

    def run(self, micro_batch: int, sequence: int) -> Tuple[Scope, Calls]:
        observer = self._observer
        scope = Scope("forward")
        observer.resolve = self._resolve
        observer.nodes, observer.saved, observer.windows = {}, {}, []
        observer._edges, observer._keys, observer._pending = {}, {}, []
        ids = torch.zeros(micro_batch, sequence, dtype=torch.long, device="cuda")
        calls = Calls(observer, self._model)
        blocks.start()
        with observer, calls:
            observer.scope, observer.with_nodes = scope, True
            for tensor, name in self._names:
                observer.name(tensor, name)
            observer.adopt(ids, scope.number(), owned=False)
            loss = self._forward(ids, scope)
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
        observer.nodes, observer.saved = {}, {}
        return scope, calls

    def _forward(self, ids: torch.Tensor, scope: Scope) -> torch.Tensor:
        observer = self._observer
        hooks = torch.autograd.graph.saved_tensors_hooks(observer.pack, observer.unpack)
        with hooks:
            if self._autocast is not None:
                with torch.autocast("cuda", dtype=self._autocast):
                    result = self._model(input_ids=ids, labels=ids)
            else:
                result = self._model(input_ids=ids, labels=ids)
        observer.settle()
        loss = result.loss
        values = [observer.reference(loss), observer.reference(result.logits)]
        returned = ["result"] + values
        scope.emit(returned)
        end = len(scope.code)
        del result
        returned.extend(one for instruction in scope.code[end:] for one in instruction[1:] if one not in values)
        scope.closed = True
        del scope.code[end:], scope.places[end:]
        return loss


def _named_load(scope: Scope, names: List[Tuple[torch.Tensor, str]]) -> List[List[Any]]:
    """The code of the building, with parameters and buffers by their names."""
    known: Dict[Any, str] = {}
    for tensor, name in names:
        storage = scope.storages.get(tensor.untyped_storage()._cdata)
        if storage is not None:
            known[storage.owner] = name
    code = [fold.renamed(instruction, known) for instruction in scope.code if not _only_fills(instruction)]
    numbers = {value: index for index, value in enumerate(
        dict.fromkeys(one for instruction in code for one in fold.made(instruction) if isinstance(one, int)))}
    return _plain([fold.renamed(instruction, numbers) for instruction in code])


def _only_fills(instruction: List[Any]) -> bool:
    """Whether an instruction only writes into tensors that are there, such as `normal_`."""
    return (instruction[0] == "op" and all(len(output) == 4 and str(output[3]).startswith("is") for output in
                                           instruction[3]) and "inside" not in instruction[4])


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value


def _finish(code: List[List[Any]], gradients: Dict[str, int]) -> None:
    """Puts templates into their table, and writes empty entries no more."""
    for instruction in code:
        if instruction[0] == "repeat":
            instruction[1] = instruction[1][0]
            _finish(instruction[3]["code"], gradients)
            instruction[3]["code"] = [_short(one) for one in instruction[3]["code"]]
        if instruction[0] not in ("op", "node"):
            continue
        extra = instruction[4]
        if "gradient" in extra:
            template = extra["gradient"]
            _finish(template["code"], gradients)
            template["code"] = [_short(one) for one in fold.numbered(template["code"], 0)]
            key = json.dumps(template)
            extra["gradient"] = gradients.setdefault(key, len(gradients))
        for output in instruction[3]:
            if len(output) == 4 and isinstance(output[3], list):
                output[3] = f"bytes {output[3][1][0]}"
        for at, one in enumerate(extra.get("inside", [])):
            if isinstance(one, list) and isinstance(one[0], list):
                extra["inside"][at] = [one[0][0], one[1]]


def _short(instruction: List[Any]) -> List[Any]:
    return instruction[:4] if instruction[0] in ("op", "node") and not instruction[4] else instruction


class Plan:
    """The sizes at which a model runs: its code depends on the sequence, and on whether there is one alone."""

    def __init__(self, config: Any, points: Optional[Sequence[Tuple[int, int]]]):
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        most = getattr(text, "max_position_embeddings", None)
        self.given = list(points) if points else None
        self.window = _window_of(text)
        largest = max(s for _, s in _POINTS)
        limit = most if isinstance(most, int) and most <= largest else None
        if self.window is not None and self.window <= largest:
            limit = min(limit or self.window, self.window)
        # Below the greatest sequence: at that one, slices of a model's tables become something else.
        self._limit = limit
        self.factor = 1  # Longer sequences, for loops over parts of them.

    def below(self, batches: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
        return [(b, self._scaled(s)) for b, s in batches]

    def _scaled(self, sequence: int) -> int:
        sequence = sequence * self.factor + (sequence % 2 and 1 - self.factor % 2)
        if self._limit is None:
            return sequence
        smaller = sequence * 7 * self._limit // (8 * 512)
        return max(8, smaller // 8 * 8) if sequence % 8 == 0 else smaller // 2 * 2 + 1

    def above(self, batches: Sequence[Tuple[int, int]]) -> List[Tuple[int, int]]:
        return [(b, self.window + s) for b, s in batches]


def _window_of(config: Any) -> Optional[int]:
    """The sequence from which attention over a window needs a mask."""
    for name in ("sliding_window", "attention_chunk_size", "attention_window_size", "window_size"):
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and 1 < value <= 8192:
            return value
    return None


def _merged(traces: Sequence[Trace], groups: Groups, sizes: Sizes) -> Tuple[List[Any], List[Any]]:
    """The forward pass and the body of each group of layers, for all sizes of the traces."""
    forward = _one([trace.folded.forward for trace in traces], [trace.folded.places for trace in traces], 1, sizes)
    bodies = []
    for first in groups.first:
        parts = [trace.folded.bodies[trace.folded.layers[first][1]] for trace in traces]
        places = [trace.folded.body_places[trace.folded.layers[first][1]] for trace in traces]
        bodies.append(_one_body(parts, places, sizes))
    return forward, bodies


def _one(codes: List[List[Any]], places: List[List[Any]], given: int, sizes: Sizes) -> List[Any]:
    if len({len(code) for code in codes}) != 1:
        sizes.loops = True
        rolled = [loops.roll(code, place, given) for code, place in zip(codes, places)]
        codes, places = [code for code, _ in rolled], [place for _, place in rolled]
    return merge(codes, places, sizes)


def _one_body(parts: List[Dict[str, Any]], places: List[List[Any]], sizes: Sizes) -> Dict[str, Any]:
    """The body of a layer. Its outputs are numbered anew where loops are rolled: they are named by a last entry."""
    codes = [part["code"] + [["result"] + part["outputs"]] for part in parts]
    given = parts[0]["arguments"]
    if any(part["arguments"] != given for part in parts):
        raise Different("a layer takes other values at another size")
    code = _one(codes, [place + [("", 0)] for place in places], given, sizes)
    return {"arguments": given, "code": code[:-1], "outputs": code[-1][1:]}


class Recorder:
    """Finds the variants of one model's code: which sizes share it, and its expressions."""

    def __init__(self, run: Run, plan: Plan):
        self._run = run
        self._plan = plan
        self._traces: Dict[Tuple[int, int], Trace] = {}
        self.multiple = 1

    def _at(self, points: Sequence[Tuple[int, int]]) -> List[Trace]:
        for point in points:
            if point not in self._traces:
                self._traces[point] = self._run.trace(point)
        return [self._traces[point] for point in points]

    def _merge(self, points: Sequence[Tuple[int, int]]) -> Any:
        traces = self._at(points)
        sizes = Sizes(points)
        try:
            forward, bodies = _merged(traces, self._run.groups, sizes)
        except Different as error:
            error.loops = error.loops or sizes.loops
            raise
        return forward, bodies, list(points)

    def least(self, forward: List[Any], bodies: List[Any], used: List[Tuple[int, int]]) -> Optional[int]:
        """The shortest sequence for which loops turn as written: as seen in runs with few turns."""
        counts = [one for code in [forward] + [body["code"] for body in bodies] for one in loops.counts(code)]
        if not counts:
            return None
        shortest = min(sequence for _, sequence in used)
        turning = next(sequence for sequence in range(1, shortest + 1)
                       if all(value_of(one, 2, sequence) >= 1 for one in counts))
        smaller = [trace for (batch, sequence), trace in self._traces.items()
                   if turning <= sequence < shortest and (batch == 1) == (used[0][0] == 1)
                   and (sequence % _MULTIPLE == 0) == (used[0][1] % _MULTIPLE == 0)]
        return turning if smaller and all(self._is_like(trace, bodies) for trace in smaller) else shortest

    def _is_like(self, trace: Trace, bodies: List[Any]) -> bool:
        for group, first in enumerate(self._run.groups.first):
            code = trace.folded.bodies[trace.folded.layers[first][1]]["code"]
            if loops.names(code, *trace.point) != loops.names(bodies[group]["code"], *trace.point):
                return False
        return True

    def variants(self) -> List[Any]:
        """Each with what it holds for, and its code. Loops are seen as such where they turn often enough."""
        for factor in (1, 2, 8):
            self._plan.factor = factor
            try:
                return self._variants()
            except Different as error:
                if not error.loops or factor == 8 or self._plan.given is not None:
                    raise
        return []

    def _variants(self) -> List[Any]:
        plan = self._plan
        if plan.given is not None:
            return [({}, self._merge(plan.given))]
        found = self._of_sequences({}, plan.below)
        if plan.window is not None:
            above = self._of_sequences({"sequence_from": plan.window}, plan.above)
            for holds, _ in found:
                holds["sequence_below"] = plan.window
            found += above
        return found

    def _of_sequences(self, holds: Dict[str, Any], scaled: Any) -> List[Any]:
        try:
            return self._of_batches(holds, scaled(_POINTS + _ODD), scaled(_ALONE + _ALONE_ODD))
        except Different:
            pass
        # Code that pads to multiples runs other operators where nothing is missing.
        found = self._of_batches(dict(holds, sequence_multiple=_MULTIPLE), scaled(_POINTS), scaled(_ALONE))
        try:
            found += self._of_batches(dict(holds, sequence_no_multiple=_MULTIPLE), scaled(_ODD), scaled(_ALONE_ODD))
        except Different:
            self.multiple = _MULTIPLE
        return found

    def _of_batches(self, holds: Dict[str, Any], several: List[Tuple[int, int]], alone: List[Tuple[int, int]]) \
            -> List[Any]:
        merged = self._merge(several)
        try:
            return [(holds, self._merge(several + alone[:1]))]
        except Different:
            return [(holds, merged), (dict(holds, micro_batch=1), self._merge(alone))]


def record(source_text: str, parameters: str, autocast: Optional[str], attention: str,
           points: Optional[Sequence[Tuple[int, int]]], wanted: Optional[str] = None) -> str:
    import transformers

    torch.backends.cuda.enable_cudnn_sdp(False)
    source = Source(source_text)
    config = source.configuration()
    config.use_cache = False
    task, kind = task_of(config, wanted)
    observer = Observer()
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    blocks.start()
    try:
        model, load = build(source, kind, config, parameters, attention, observer)
    except ValueError as error:
        if attention == "eager" or "attn_implementation" not in str(error):
            raise
        attention = "eager"  # All that this model has.
        observer = Observer()
        blocks.start()
        model, load = build(source, kind, config, parameters, attention, observer)
    blocks.write_inside(observer.windows)
    model.train()
    names = parameter_names(model)
    run = Run(observer, model, names, TYPES.get(autocast or ""))
    plan = Plan(config, points)
    run.run(*plan.below(_ALONE[3:])[0])  # What libraries allocate at their first use is there from now on.
    recorder = Recorder(run, plan)
    try:
        try:
            found = recorder.variants()
        except Different as error:
            if error.loops or not run.groups.skipped:
                raise
            run.whole, recorder = True, Recorder(run, plan)
            found = recorder.variants()
    except Different as error:
        raise Refused(str(error)) from None
    gradients: Dict[str, int] = {}
    loaded = _named_load(load, names)
    _finish(loaded, gradients)
    index = {path: at for at, (path, _) in enumerate(model.named_modules())}
    capability = torch.cuda.get_device_capability()
    variants = []
    checked: List[List[int]] = []
    for holds, (forward, bodies, used) in found:
        checked += [list(point) for point in used if list(point) not in checked]
        least = recorder.least(forward, bodies, used)
        if least is not None:
            holds["sequence_from"] = max(least, holds.get("sequence_from", 0))
        variant = dict({"parameters": parameters, "autocast": autocast, "attention": attention,
                        "compute_capability": f"{capability[0]}.{capability[1]}"}, **holds)
        if not variants:
            variant["load"] = [_short(one) for one in loaded]
        variant.update(_written(forward, bodies, run.groups, index, gradients))
        variants.append(variant)
    return write.text({
        "headroom_recording": 1, "model": source.name, "task": task,
        "versions": {"python": platform.python_version(), "torch": torch.__version__.split("+")[0],
                     "transformers": transformers.__version__},
        "config": json.loads(config.to_json_string(use_diff=False)),
        "sizes": {"checked": checked, "sequence_multiple": recorder.multiple},
        "modules": [[path, type(module).__name__] for path, module in model.named_modules()],
        "parameters": _parameters(model, parameters),
        "buffers": [[name, list(buffer.shape), DTYPES[buffer.dtype]] for name, buffer in model.named_buffers()],
        "gradients": [json.loads(one) for one in gradients],
        "variants": variants})


def _written(forward: List[Any], bodies: List[Any], groups: Groups, index: Dict[str, int],
             gradients: Dict[str, int]) -> Dict[str, Any]:
    """The code of a variant, with equal bodies and templates written once."""
    _finish(forward, gradients)
    numbers: Dict[str, int] = {}
    of_group = []
    for body in bodies:
        _finish(body["code"], gradients)
        body["code"] = [_short(one) for one in body["code"]]
        of_group.append(numbers.setdefault(json.dumps(body), len(numbers)))
    paths = {id(module): path for path, module in groups.model.named_modules()}
    layers = [{"module": index[paths[id(layer)]], "body": of_group[group]}
              for layer, group in zip(groups.layers, groups.of_call)]
    return {"forward": [_short(one) for one in forward], "layers": layers, "bodies": [json.loads(one) for one in numbers]}


def _parameters(model: Any, usual: str) -> List[List[Any]]:
    owners: Dict[int, str] = {}
    tied: Dict[str, List[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = owners.setdefault(id(parameter), name)
        if first != name:
            tied.setdefault(first, []).append(name)
    result = []
    for name, parameter in model.named_parameters():
        extra: Dict[str, Any] = {}
        if name in tied:
            extra["tied"] = tied[name]
        if not parameter.requires_grad:
            extra["trainable"] = False
        if DTYPES[parameter.dtype] != usual:
            extra["dtype"] = DTYPES[parameter.dtype]
        result.append([name, list(parameter.shape)] + ([extra] if extra else []))
    return result
