"""The last form of code: templates and bodies in tables, names instead of numbers, nothing that is empty."""

import json
from typing import Any, Dict, List, Tuple

import torch

from . import fold
from .observer import Scope
from .skip import Groups


def named_load(scope: Scope, names: List[Tuple[torch.Tensor, str]]) -> List[List[Any]]:
    """The code of the building, with parameters and buffers by their names."""
    known: Dict[Any, str] = {}
    for tensor, name in names:
        storage = scope.storages.get(tensor.untyped_storage()._cdata)
        if storage is not None:
            known[storage.owner] = name
    code = [fold.renamed(instruction, known) for instruction in scope.code]
    numbers = {value: index for index, value in enumerate(
        dict.fromkeys(one for instruction in code for one in fold.made(instruction) if isinstance(one, int)))}
    return _plain([fold.renamed(instruction, numbers) for instruction in code])


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value


def finish(code: List[List[Any]], gradients: Dict[str, int]) -> None:
    """Puts templates into their table, and writes empty entries no more."""
    for instruction in code:
        if instruction[0] == "repeat":
            instruction[1] = instruction[1][0]
            finish(instruction[3]["code"], gradients)
            instruction[3]["code"] = [short(one) for one in instruction[3]["code"]]
        if instruction[0] not in ("op", "node"):
            continue
        extra = instruction[4]
        if "gradient" in extra:
            template = extra["gradient"]
            finish(template["code"], gradients)
            template["code"] = [short(one) for one in fold.numbered(template["code"], 0)]
            key = json.dumps(template)
            extra["gradient"] = gradients.setdefault(key, len(gradients))
        for output in instruction[3]:
            if len(output) == 4 and isinstance(output[3], list):
                output[3] = f"bytes {output[3][1][0]}"
        for at, one in enumerate(extra.get("inside", [])):
            if isinstance(one, list) and isinstance(one[0], list):
                extra["inside"][at] = [one[0][0], one[1]]


def short(instruction: List[Any]) -> List[Any]:
    return instruction[:4] if instruction[0] in ("op", "node") and not instruction[4] else instruction


def written(forward: List[Any], bodies: List[Any], groups: Groups, index: Dict[str, int],
             gradients: Dict[str, int]) -> Dict[str, Any]:
    """The code of a variant, with equal bodies and templates written once."""
    inputs = forward.pop(0)[1:]
    finish(forward, gradients)
    numbers: Dict[str, int] = {}
    of_group = []
    for body in bodies:
        finish(body["code"], gradients)
        body["code"] = [short(one) for one in body["code"]]
        of_group.append(numbers.setdefault(json.dumps(body), len(numbers)))
    paths = {id(module): path for path, module in groups.model.named_modules()}
    layers = [{"module": index[paths[id(layer)]], "body": of_group[group]}
              for layer, group in zip(groups.layers, groups.of_call)]
    return {"inputs": inputs, "forward": [short(one) for one in forward], "layers": layers,
            "bodies": [json.loads(one) for one in numbers]}
