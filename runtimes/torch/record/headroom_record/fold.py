"""Cuts the layers out of a forward pass, and writes equal ones once."""

import json
from typing import Any, Dict, List, Optional, Set, Tuple


def references(instruction: List[Any]) -> List[Any]:
    """The values that an instruction reads, in order, with their paths inside it."""
    kind = instruction[0]
    if kind in ("op", "node"):
        saved = [one for one in instruction[4].get("saves", []) if isinstance(one, int)]
        base = instruction[4].get("base")
        return list(instruction[2]) + saved + ([base] if base is not None else [])
    if kind == "linear":
        return [instruction[2]]
    if kind in ("drop", "result"):
        return list(instruction[1:])
    if kind == "layer":
        return list(instruction[2])
    return []


def made(instruction: List[Any]) -> List[int]:
    kind = instruction[0]
    if kind == "op":
        return [output[0] for output in instruction[3]]
    if kind == "linear":
        return [instruction[3][0]]
    if kind == "layer":
        return list(instruction[3])
    return []


def renamed(instruction: List[Any], names: Dict[Any, Any], prefix: str = "") -> List[Any]:
    """The instruction with other value numbers, and with names relative to the module `prefix`."""
    def value(one: Any) -> Any:
        if isinstance(one, str) and prefix and one[2:].startswith(prefix):
            return one[:2] + one[2 + len(prefix):]
        return names.get(one, one) if isinstance(one, int) else one

    def path(one: str) -> str:
        return one[len(prefix):] if prefix and one.startswith(prefix) else one

    kind = instruction[0]
    if kind in ("op", "node"):
        extra = dict(instruction[4])
        if "saves" in extra:
            extra["saves"] = [value(one) for one in extra["saves"]]
        if "base" in extra:
            extra["base"] = value(extra["base"])
        outputs = [[value(output[0])] + output[1:] for output in instruction[3]]
        return [kind, instruction[1], [value(one) for one in instruction[2]], outputs, extra]
    if kind == "linear":
        output = instruction[3]
        return [kind, path(instruction[1]), value(instruction[2]), [value(output[0])] + output[1:]]
    if kind in ("drop", "result"):
        return [kind] + [value(one) for one in instruction[1:]]
    if kind == "layer":
        return [kind, instruction[1], [value(one) for one in instruction[2]], [value(one) for one in instruction[3]]]
    if kind in ("enter", "leave"):
        return [kind, path(instruction[1])]
    return instruction


def numbered(code: List[List[Any]], given: int) -> List[List[Any]]:
    """The code with its values numbered in the order in which they are made."""
    names = {value: value for value in range(given)}
    result = []
    for instruction in code:
        for value in made(instruction):
            names.setdefault(value, len(names))
        result.append(renamed(instruction, names))
    return result


def fold(code: List[List[Any]], module_index: Dict[str, int]) -> Tuple[List[Any], List[Any], List[Any]]:
    """The forward pass with calls of layers, the calls, and their bodies."""
    last_use: Dict[int, int] = {}
    for at, instruction in enumerate(code):
        for value in references(instruction):
            if isinstance(value, int):
                last_use[value] = at
    forward: List[Any] = []
    layers: List[Any] = []
    bodies: List[Any] = []
    known: Dict[str, int] = {}
    at = 0
    while at < len(code):
        if code[at][0] != "#begin":
            forward.append(code[at])
            at += 1
            continue
        end = next(index for index in range(at, len(code)) if code[index][0] == "#end")
        path, hidden = code[at][1], code[at][2]
        body, arguments, outputs = _body(code[at + 1:end], path, hidden, end, last_use)
        key = json.dumps(body)
        if key not in known:
            known[key] = len(bodies)
            bodies.append(body)
        forward.append(["layer", len(layers), arguments, outputs])
        layers.append({"module": module_index[path], "body": known[key]})
        at = end + 1
    return numbered(forward, 1), layers, bodies


def _body(code: List[List[Any]], path: str, hidden: Optional[int], end: int, last_use: Dict[int, int]) \
        -> Tuple[Dict[str, Any], List[int], List[int]]:
    inside: Set[int] = {value for instruction in code for value in made(instruction)}
    arguments = [hidden] if isinstance(hidden, int) else []
    for instruction in code:
        for value in references(instruction):
            if isinstance(value, int) and value not in inside and value not in arguments:
                arguments.append(value)
    names = {value: number for number, value in enumerate(arguments)}
    outputs = []
    for instruction in code:
        for value in made(instruction):
            names[value] = len(names)
            if last_use.get(value, -1) > end:
                outputs.append(value)
    body = {"arguments": len(arguments), "code": [renamed(one, names, path + ".") for one in code],
            "outputs": [names[value] for value in outputs]}
    return body, arguments, outputs
