"""Runs a model at several sizes and puts the recording together."""

import json
import os
import platform
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from . import blocks, fold, write
from .backward import Backward
from .merge import Different, merge
from .model import TYPES, Source, build, parameter_names, task_of
from .modules import Calls
from .observer import Observer, Scope
from .schema import DTYPES, geometry
from .sizes import Sizes

_POINTS = ((2, 512), (3, 320), (2, 192), (5, 256), (3, 448))
_ODD = (3, 333)
_ALIGNED = (8, 64)


class Refused(Exception):
    """The model cannot be recorded; the text says why."""


class Run:
    """One forward and backward pass at one size."""

    def __init__(self, observer: Observer, model: Any, names: List[Tuple[torch.Tensor, str]],
                 autocast: Optional[torch.dtype]):
        self._observer = observer
        self._model = model
        self._names = names
        self._autocast = autocast
        self._storages = {tensor.untyped_storage()._cdata: (geometry(tensor), name) for tensor, name in names}

    def _resolve(self, tensor: torch.Tensor) -> Any:
        return self._storages.get(tensor.untyped_storage()._cdata, (None, None))[1]

    def run(self, micro_batch: int, sequence: int) -> Scope:
        observer = self._observer
        scope = Scope("forward")
        observer.resolve = self._resolve
        observer.nodes, observer.saved, observer.windows = {}, {}, []
        observer._edges, observer._keys = {}, {}
        ids = torch.zeros(micro_batch, sequence, dtype=torch.long, device="cuda")
        blocks.start()
        with observer, Calls(observer, self._model):
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
        return scope

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


def _points_of(config: Any, points: Optional[Sequence[Tuple[int, int]]]) -> List[Tuple[int, int]]:
    """Sizes below the greatest sequence of the model: at that one, slices of its tables become something else."""
    if points:
        return list(points)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    most = getattr(text, "max_position_embeddings", None)
    if isinstance(most, int) and most <= max(s for _, s in _POINTS):
        return [(b, max(8, s * 7 * most // (8 * 512) // 8 * 8)) for b, s in _POINTS]
    return list(_POINTS)


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
    chosen = _points_of(config, points)
    _warm(run, chosen[-1])
    scopes = [run.run(*point) for point in chosen]
    sizes = Sizes(chosen)
    try:
        code = merge([scope.code for scope in scopes], [scope.places for scope in scopes], sizes)
    except Different as error:
        raise Refused(str(error)) from None
    gradients: Dict[str, int] = {}
    _finish(code, gradients)
    loaded = _named_load(load, names)
    _finish(loaded, gradients)
    index = {path: at for at, (path, _) in enumerate(model.named_modules())}
    forward, layers, bodies = fold.fold(code, index)
    for body in bodies:
        body["code"] = [_short(one) for one in body["code"]]
    capability = torch.cuda.get_device_capability()
    variant = {"parameters": parameters, "autocast": autocast, "attention": attention,
               "compute_capability": f"{capability[0]}.{capability[1]}", "load": [_short(one) for one in loaded],
               "forward": [_short(one) for one in forward], "layers": layers, "bodies": bodies}
    return write.text({
        "headroom_recording": 1, "model": source.name, "task": task,
        "versions": {"python": platform.python_version(), "torch": torch.__version__.split("+")[0],
                     "transformers": transformers.__version__},
        "config": json.loads(config.to_json_string(use_diff=False)),
        "sizes": {"checked": [list(point) for point in chosen], "sequence_multiple": 1},
        "modules": [[path, type(module).__name__] for path, module in model.named_modules()],
        "parameters": _parameters(model, parameters),
        "buffers": [[name, list(buffer.shape), DTYPES[buffer.dtype]] for name, buffer in model.named_buffers()],
        "gradients": [json.loads(one) for one in gradients],
        "variants": [variant]})


def _warm(run: Run, point: Tuple[int, int]) -> None:
    """Runs once, so that what libraries allocate at their first use is there."""
    run.run(*point)


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
