"""Loops of Python whose number of turns grows with the sequence: one turn is written, and how often it runs."""

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .fold import made, numbered, references, renamed
from .sizes import value_of

_LONGEST = 600  # Instructions of one turn.

_TAKE_LISTS = ("cat", "stack")  # Operators to which loops hand what all their turns made.


class _Zero(dict):
    """Calls every value 0, so that instructions are compared without their values."""

    def get(self, key: Any, default: Any = None) -> Any:
        return 0


def _signatures(code: Sequence[List[Any]]) -> List[int]:
    known: Dict[str, int] = {}
    result = []
    for instruction in code:
        text = json.dumps(renamed(instruction, _Zero()))
        result.append(known.setdefault(text, len(known)))
    return result


class _Loop:
    """`turns` times `period` instructions from `start` on."""

    def __init__(self, start: int, period: int, turns: int):
        self.start, self.period, self.turns = start, period, turns


def _values(references_of: List[Any], step: int, later: List[Any]) -> bool:
    """Whether the values of two turns are the same, or `step` numbers apart."""
    return len(references_of) == len(later) and all(
        one == other or (isinstance(one, int) and isinstance(other, int) and other - one == step)
        for one, other in zip(references_of, later))


class _Search:
    """Finds loops in code, from left to right."""

    def __init__(self, code: Sequence[List[Any]]):
        self._code = code
        self._signatures = _signatures(code)
        self._used = [references(instruction) for instruction in code]
        self._outputs = [made(instruction) for instruction in code]
        self._count = [0]
        for one in self._outputs:
            self._count.append(self._count[-1] + len(one))

    def loops(self) -> List[_Loop]:
        """Loops that do not overlap; of those that do, the one that covers most."""
        found: List[_Loop] = []
        for period in range(3, min(_LONGEST, len(self._code) // 2) + 1):
            found += self._with_period(period, [loop for loop in found if period % loop.period == 0])
        found.sort(key=lambda loop: (-loop.period * loop.turns, loop.period, loop.start))
        chosen: List[_Loop] = []
        for loop in found:
            end = loop.start + loop.period * loop.turns
            if all(end <= other.start or loop.start >= other.start + other.period * other.turns for other in chosen):
                chosen.append(loop)
        return sorted(chosen, key=lambda loop: loop.start)

    def _with_period(self, period: int, shorter: Sequence[_Loop]) -> List[_Loop]:
        """Outside `shorter` loops, which turn in a part of this period."""
        signatures, found = self._signatures, []
        ends = {loop.start: loop.start + loop.period * loop.turns for loop in shorter}
        same = list(map(int.__eq__, signatures[:-period], signatures[period:]))
        at = 0
        while True:
            try:
                at = same.index(True, at)
                end = same.index(False, at) if False in same[at:at + 2 * period] else at + 2 * period
            except ValueError:
                return found
            inside = next((last for first, last in ends.items() if first <= at < last), None)
            if inside is not None or end - at < 2 * period:
                at = end if inside is None else inside
                continue
            step = self._count[at + period] - self._count[at]
            begin = at
            while at < len(same) and same[at] and self._follows(at, period, step):
                at += 1
            turns = (at - begin) // period + 1
            if step and turns >= 3:
                found.append(_Loop(begin, period, turns))
            at = max(at, begin + 1)

    def _follows(self, at: int, period: int, step: int) -> bool:
        return _values(self._used[at], step, self._used[at + period]) and all(
            other - one == step for one, other in zip(self._outputs[at], self._outputs[at + period]))


def _owners(code: Sequence[List[Any]]) -> Dict[Any, Any]:
    """The values whose storages views are of."""
    result: Dict[Any, Any] = {}
    for instruction in code:
        for output in instruction[3] if instruction[0] == "op" else []:
            if len(output) == 4 and isinstance(output[3], str) and output[3].startswith("view of "):
                base = instruction[2][int(output[3][len("view of "):])]
                result[output[0]] = result.get(base, base)
    return result


def _views_alone(instruction: List[Any]) -> bool:
    """Whether an operator saves nothing, and its gradient consists of views of the gradient of its output."""
    extra = instruction[4]
    code = extra.get("gradient", {"code": []})["code"]
    outputs = [output for one in code if one[0] != "drop" for output in one[3]]
    return not extra.get("saves") and "base" not in extra and all(
        len(output) == 4 and str(output[3]).startswith("view of ") for output in outputs)


class _Lists:
    """What all turns of a loop made for an operator that takes a list, such as the outputs that Python appends."""

    def __init__(self, first: Sequence[List[Any]], step: int, turns: int):
        self._inside = {value for one in first for value in made(one)}
        self._owners = _owners(first)
        self._turns = range(0, step * turns, step)
        self.found: List[Any] = []  # Each by the value of the first turn.

    def taken(self, code: Sequence[List[Any]]) -> List[List[Any]]:
        """The code after the loop with one name for each list."""
        return [self._operator(one) if one[0] == "op" and one[1] in _TAKE_LISTS else
                self._drop(one) if one[0] == "drop" else one for one in code]

    def _of(self, value: Any) -> List[Any]:
        return [value + turn for turn in self._turns]

    def _operator(self, instruction: List[Any]) -> List[Any]:
        given, inputs, at = instruction[2], [], 0
        while at < len(given):
            value = given[at]
            if value in self._inside and self._owners.get(value, value) in self._inside and \
                    given[at:at + len(self._turns)] == self._of(value):
                at += len(self._turns)
            else:
                at += 1
            inputs.append(value)
        if len(inputs) == len(given) or not _views_alone(instruction):
            return instruction
        self.found += [value for value in inputs if value in self._inside and value not in self.found]
        extra = {key: value for key, value in instruction[4].items() if key not in ("gradient", "inside")}
        return instruction[:2] + [inputs, instruction[3], extra]

    def _drop(self, instruction: List[Any]) -> List[Any]:
        values = set(instruction[1:])
        for one in self.found:
            owned = self._of(self._owners.get(one, one))
            if values.issuperset(owned):
                values = values.difference(owned) | {one}
        return ["drop"] + sorted(values, key=lambda one: (isinstance(one, str), one))


def _rolled(code: List[List[Any]], loop: _Loop) -> Optional[List[List[Any]]]:
    first = code[loop.start:loop.start + loop.period]
    second = code[loop.start + loop.period:loop.start + 2 * loop.period]
    step = sum(len(made(one)) for one in first)
    inside = [value for one in first for value in made(one)]
    arguments: List[Any] = []
    following: List[Any] = []
    for one, other in zip(first, second):
        for value, later in zip(references(one), references(other)):
            if isinstance(value, int) and value not in inside and value not in arguments:
                if later != value and later not in inside:
                    return None  # It comes from further back than the turn before.
                arguments.append(value)
                following.append(None if later == value else later)
    end = loop.start + loop.period * loop.turns
    last = {value + step * (loop.turns - 1) for value in inside}
    earlier = {value + step * turn for value in inside for turn in range(loop.turns - 1)}
    lists = _Lists(first, step, loop.turns)
    after = lists.taken(code[end:])
    outputs: List[int] = []
    for instruction in after:
        for value in references(instruction):
            if value in earlier and value not in lists.found:
                return None  # What an earlier turn made lives on.
            if value in last and value not in outputs:
                outputs.append(value)
    names = {value: number for number, value in enumerate(arguments + inside)}
    body = {"arguments": len(arguments), "next": [None if one is None else names[one] for one in following],
            "code": [renamed(one, names) for one in first],
            "outputs": [names[value - step * (loop.turns - 1)] for value in outputs]
            + [names[value] for value in lists.found]}
    if lists.found:
        body["lists"] = len(lists.found)
    return code[:loop.start] + [["repeat", (loop.turns,), arguments, body, outputs + lists.found]] + after


def roll(code: List[List[Any]], places: List[Any], given: int) -> Tuple[List[List[Any]], List[Any]]:
    """The code with its loops written once."""
    places = list(places)
    for loop in reversed(_Search(code).loops()):
        rolled = _rolled(code, loop)
        if rolled is not None:
            end = loop.start + loop.period * loop.turns
            places[loop.start:end] = [places[loop.start]]
            code = rolled
    return numbered(code, given), places


def counts(code: Sequence[List[Any]]) -> List[Any]:
    """How often the loops of symbolic code turn."""
    return [instruction[1][0] for instruction in code if instruction[0] == "repeat"]


def names(code: Sequence[List[Any]], micro_batch: int, sequence: int) -> List[str]:
    """The operators that symbolic code runs at one size, loops turn by turn."""
    result: List[str] = []
    for instruction in code:
        if instruction[0] == "repeat":
            turns = value_of(instruction[1][0], micro_batch, sequence)
            result += [one[1] for one in instruction[3]["code"] if one[0] in ("op", "linear")] * turns
        elif instruction[0] in ("op", "linear"):
            result.append(instruction[1])
    return result
