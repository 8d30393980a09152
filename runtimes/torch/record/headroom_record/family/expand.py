"""The recording of one configuration, from that of its family. It checks what `family` wrote."""

import json
from fractions import Fraction
from typing import Any, Dict, List

from .. import fold
from ..merge import Different
from . import rules
from .configuration import flat


def number_of(expression: str, values: Dict[str, Any]) -> Dict[str, int]:
    """An expression as terms of B and S with whole coefficients."""
    result: Dict[str, int] = {}
    for term in expression.replace(" - ", " + -").split(" + "):
        value, rest = Fraction(1), []
        if term.startswith("-"):
            value, term = Fraction(-1), term[1:]
        for factor in term.split("*"):
            head, *under = factor.split("/") if not factor.startswith("ceil(") else [factor]
            if head.isdigit():
                value *= int(head)
            elif head in ("B", "S") or head.startswith("ceil("):
                rest.append(head)
            else:
                value *= _dimension(values, head)
            for name in under:
                value /= int(name) if name.isdigit() else _dimension(values, name)
        key = "*".join(rest)
        result[key] = result.get(key, Fraction(0)) + value  # type: ignore[assignment]
    for key, value in result.items():
        if value.denominator != 1:
            raise Different(f"{expression} is no whole number")
        result[key] = int(value)
    return {key: value for key, value in result.items() if value or key == ""}


def _dimension(values: Dict[str, Any], name: str) -> int:
    if not isinstance(values.get(name), int):
        raise Different(f"the configuration has no number {name}")
    return values[name]


def size_of(expression: Any, values: Dict[str, Any]) -> Any:
    """A size as a recording has it: a number, or an expression of B and S."""
    if not isinstance(expression, str):
        return expression
    terms = number_of(expression, values)
    parts = []
    for key, number in terms.items():
        if not key:
            if number or len(terms) == 1:
                parts.append(str(number))
        else:
            parts.append(key if number == 1 else f"{number}*{key}")
    text = parts[0]
    for part in parts[1:]:
        text += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
    return int(text) if text.lstrip("-").isdigit() else text


class _Expansion:
    def __init__(self, family: Dict[str, Any], config: Dict[str, Any]):
        self.values = flat(config)
        self.stacks = []
        for stack in family["stacks"]:
            count = size_of(stack["count"], self.values)
            kinds = []
            for index in range(count):
                label = rules.label_of(stack["by"], config, index, count)
                if label not in stack["kinds"]:
                    raise Different(f"layer {index} of {stack['path']} is {label}, which was not recorded")
                kinds.append(stack["kinds"].index(label))
            self.stacks.append({"path": stack["path"], "count": count, "kinds": kinds})

    def sizes(self, value: Any, at: str = "") -> Any:
        """All sizes in a part of a recording, where sizes stand."""
        if isinstance(value, list):
            return [self.sizes(one) for one in value]
        if isinstance(value, str):
            return size_of(value, self.values)
        return value

    def output(self, output: List[Any]) -> List[Any]:
        result = [output[0], output[1], self.sizes(output[2])]
        if len(output) == 4:
            how = output[3]
            result.append(f"bytes {size_of(how[6:], self.values)}" if how.startswith("bytes ") else how)
        return result

    def instruction(self, one: List[Any]) -> List[Any]:
        kind = one[0]
        if kind == "linear":
            return one[:3] + [self.output(one[3])]
        if kind == "repeat":
            body = dict(one[3], code=self.code(one[3]["code"]))
            return ["repeat", size_of(one[1], self.values), one[2], body, one[4]]
        if kind not in ("op", "node"):
            return list(one)
        outputs = [self.output(output) for output in one[3]] if kind == "op" else one[3]
        result = [kind, one[1], list(one[2]), outputs]
        if len(one) == 5:
            extra = dict(one[4])
            if "scalars" in extra:
                extra["scalars"] = {key: self.scalar(value) for key, value in extra["scalars"].items()}
            if "inside" in extra:
                extra["inside"] = [[self.sizes(entry[0]) if entry[0] != "free" else "free", entry[1]]
                                   if isinstance(entry, list) else entry for entry in extra["inside"]]
            result.append(extra)
        return result

    def scalar(self, value: Any) -> Any:
        """A text that is no expression of the configuration is a text."""
        try:
            return size_of(value, self.values)
        except Different:
            return value

    def code(self, code: List[Any]) -> List[Any]:
        return [self.instruction(one) for one in code]

    def entries(self, entries: List[Any]) -> List[Any]:
        result = []
        for entry in entries:
            if isinstance(entry, dict):
                stack = self.stacks[entry["each"]]
                for index, kind in enumerate(stack["kinds"]):
                    result += [_with_index(one, index) for one in entry["kinds"][kind]]
            else:
                result.append(entry)
        return result


def _with_index(value: Any, index: int) -> Any:
    return json.loads(json.dumps(value).replace("{i}", str(index)))


class _Unrolled:
    """Code with its loops over layers unrolled, and its values numbered anew."""

    def __init__(self, expansion: _Expansion, given: int):
        self._expansion = expansion
        self._outer = {value: value for value in range(given)}
        self._of_layer: Dict[Any, Dict[int, int]] = {}
        self._turns: Dict[int, List[int]] = {}  # What each turn of a loop handed on, by output of the loop.
        self._next = given
        self._calls = 0
        self.code: List[Any] = []

    def run(self, code: List[Any]) -> List[Any]:
        for one in code:
            if one[0] == "each":
                self._loop(one)
            else:
                self._add(self._expansion.instruction(one), self._outer, {})
        return with_joined_drops(self.code)

    def _add(self, one: List[Any], own: Dict[int, int], before: Dict[str, int]) -> None:
        for value in fold.made(one):
            if isinstance(value, int):
                own[value] = self._next
                self._next += 1
        if one[0] in ("op", "node") and len(one) == 4:
            one = one + [{}]
        if one[0] in ("drop", "result"):
            one = one[:1] + self._all(one[1:])
        elif one[0] == "op":
            one = one[:2] + [self._all(one[2])] + one[3:]
        renamed = fold.renamed(one, _Names(own, self._outer, before))
        def final(value: Any) -> Any:
            if isinstance(value, str) and value.startswith("#"):
                return int(value[1:])
            return before.get(value, value) if isinstance(value, str) else value

        for at, values in enumerate(renamed):
            if at >= 1 and isinstance(values, list):
                renamed[at] = [final(value) for value in values]
        if renamed[0] in ("drop", "result"):
            renamed = renamed[:1] + [final(value) for value in renamed[1:]]
        if renamed[0] == "linear":
            renamed[2] = before.get(renamed[2], renamed[2]) if isinstance(renamed[2], str) else renamed[2]
        if renamed[0] in ("op", "node") and len(renamed) == 5 and "saves" in renamed[4]:
            renamed[4]["saves"] = [before.get(value, value) if isinstance(value, str) else value
                                   for value in renamed[4]["saves"]]
        if renamed[0] == "layer":
            renamed[1] = self._calls
            self._calls += 1
        self.code.append(renamed[:4] if renamed[0] in ("op", "node") and not renamed[4] else renamed)

    def _all(self, values: List[Any]) -> List[Any]:
        """Values with those of all turns in place of "each 36 37", of all but the last in place of "most 36 37"; their
        numbers are final, and begin with "#"."""
        result: List[Any] = []
        for value in values:
            if isinstance(value, str) and value.startswith(("each ", "back ", "most ")):
                of_slots = [self._turns[int(one)] for one in value.split()[1:]]
                rows = list(zip(*of_slots))
                rows = rows[::-1] if value.startswith("back") else rows[:-1] if value.startswith("most") else rows
                result += [f"#{one}" for row in rows for one in row if one is not None]
            else:
                result.append(value)
        return result

    def _loop(self, loop: List[Any]) -> None:
        stack = self._expansion.stacks[loop[1]]
        before = {f"<{slot}": self._outer.get(value) for slot, value in enumerate(loop[2]["first"])}
        turns: List[Dict[str, int]] = []
        for index, kind in enumerate(stack["kinds"]):
            own = self._of_layer.setdefault((loop[1], index), {})
            for one in loop[2]["kinds"][kind]["code"]:
                self._add(_with_index(self._expansion.instruction(one), index), own, before)
            drops = loop[2]["first_drops"] if index == 0 else loop[2]["kinds"][kind]["drops"]
            let_go = [before[one] for one in drops]
            if let_go:
                if self.code[-1][0] == "drop" and all(isinstance(one, int) for one in self.code[-1][1:]):
                    self.code[-1] = ["drop"] + sorted(self.code[-1][1:] + let_go)
                else:
                    self.code.append(["drop"] + sorted(let_go))
            before = {f"<{slot}": before.get(value) if isinstance(value, str) else own.get(value)
                      for slot, value in enumerate(loop[2]["kinds"][kind]["hands"])}
            turns.append(before)
        for slot, value in enumerate(loop[3]):
            self._outer[value] = before[f"<{slot}"]
            self._turns[value] = [one[f"<{slot}"] for one in turns]


def with_joined_drops(code: List[Any]) -> List[Any]:
    result: List[Any] = []
    for one in code:
        if one[0] == "drop" and result and result[-1][0] == "drop":
            result[-1] = ["drop"] + sorted(result[-1][1:] + one[1:])
        else:
            result.append(one)
    return result


class _Names(dict):
    def __init__(self, own: Dict[int, int], outer: Dict[int, int], before: Dict[str, int]):
        super().__init__()
        self._own, self._outer, self._before = own, outer, before

    def get(self, key: Any, default: Any = None) -> Any:
        return self._own[key] if key in self._own else self._outer[key]


def expanded(family: Dict[str, Any], config: Dict[str, Any]) -> Dict[str, Any]:
    """The recording of `config`, a configuration with every default; raises Different where it is unlike."""
    expansion = _Expansion(family, config)
    modules = expansion.entries(family["modules"])
    result: Dict[str, Any] = {"headroom_recording": 1, "model": family["model"], "task": family["task"],
                              "versions": family["versions"], "config": config, "sizes": family["sizes"],
                              "modules": modules}
    result["parameters"] = [[one[0], expansion.sizes(one[1])] + one[2:]
                            for one in expansion.entries(family["parameters"])]
    result["buffers"] = [[one[0], expansion.sizes(one[1]), one[2]] for one in expansion.entries(family["buffers"])]
    result["gradients"] = [dict(one, code=expansion.code(one["code"])) for one in family["gradients"]]
    if "differs_in_fp16" in family:
        result["differs_in_fp16"] = family["differs_in_fp16"]
    paths = {path: at for at, (path, _) in enumerate(modules)}
    result["variants"] = []
    for variant in family["variants"]:
        own = dict(variant)
        own["inputs"] = [[one[0], one[1], expansion.sizes(one[2])] for one in variant["inputs"]]
        for key in ("sequence_from", "sequence_below", "image_tokens"):
            if key in own:
                own[key] = size_of(own[key], expansion.values)
        if "load" in variant:
            own["load"] = _Unrolled(expansion, 0).run(variant["load"])
        own["forward"] = _Unrolled(expansion, len(variant["inputs"])).run(variant["forward"])
        own["layers"] = []
        for layer in variant["layers"]:
            if "each" in layer:
                stack = expansion.stacks[layer["each"]]
                own["layers"] += [{"module": paths[f"{stack['path']}.{index}"], "body": layer["kinds"][kind]}
                                  for index, kind in enumerate(stack["kinds"])]
            else:
                own["layers"].append({"module": paths[layer["module"]], "body": layer["body"]})
        own["bodies"] = [dict(body, code=expansion.code(body["code"])) for body in variant["bodies"]]
        result["variants"].append(own)
    return result
