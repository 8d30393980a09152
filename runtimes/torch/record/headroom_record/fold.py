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
    if kind in ("layer", "repeat"):
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
    if kind == "repeat":
        return list(instruction[4])
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
    if kind == "repeat":
        return [kind, instruction[1], [value(one) for one in instruction[2]], instruction[3],
                [value(one) for one in instruction[4]]]
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


class Folded:
    """A forward pass with calls of layers, the calls, and their bodies."""

    def __init__(self) -> None:
        self.forward: List[Any] = []
        self.places: List[Any] = []
        self.layers: List[Tuple[str, int]] = []  # The path of each call's module, and its body.
        self.bodies: List[Dict[str, Any]] = []
        self.body_places: List[List[Any]] = []


def fold(code: List[List[Any]], places: List[Any], skipped: Set[int], given: int = 1) -> Folded:
    """`skipped` are the calls that did not run: they have no body."""
    last_use: Dict[int, int] = {}
    for at, instruction in enumerate(code):
        for value in references(instruction):
            if isinstance(value, int):
                last_use[value] = at
    result = Folded()
    known: Dict[str, int] = {}
    at = 0
    while at < len(code):
        if code[at][0] != "#begin":
            result.forward.append(code[at])
            result.places.append(places[at])
            at += 1
            continue
        end = next(index for index in range(at, len(code)) if code[index][0] == "#end")
        path, hidden, index = code[at][1], code[at][2], len(result.layers)
        handed = code[at][3] if len(code[at]) > 3 else []
        result.places.append(places[at])
        if index in skipped:
            result.forward.append(["layer", index, [hidden], [code[end][2]]])
            result.layers.append((path, -1))
        else:
            body, arguments, outputs = _body(code[at + 1:end], path, hidden, handed, end, last_use)
            key = json.dumps(body)
            if key not in known:
                known[key] = len(result.bodies)
                result.bodies.append(body)
                result.body_places.append(places[at + 1:end])
            result.forward.append(["layer", index, arguments, outputs])
            result.layers.append((path, known[key]))
        at = end + 1
    result.forward = numbered(result.forward, given)
    return result


def _body(code: List[List[Any]], path: str, hidden: Optional[int], given: List[Any], end: int,
          last_use: Dict[int, int]) -> Tuple[Dict[str, Any], List[int], List[int]]:
    inside: Set[int] = {value for instruction in code for value in made(instruction)}
    arguments = [hidden] if isinstance(hidden, int) else []
    for instruction in code:
        for value in references(instruction):
            if isinstance(value, int) and value not in inside and value not in arguments:
                arguments.append(value)
    arguments += [value for value in dict.fromkeys(given)
                  if isinstance(value, int) and value not in inside and value not in arguments]
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
