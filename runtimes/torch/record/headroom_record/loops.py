"""Loops of Python whose number of turns grows with the sequence: one turn is written, and how often it runs."""

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .fold import made, numbered, references, renamed
from .sizes import value_of

_LONGEST = 600  # Instructions of one turn.


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
            found += self._with_period(period)
        found.sort(key=lambda loop: (-loop.period * loop.turns, loop.period, loop.start))
        chosen: List[_Loop] = []
        for loop in found:
            end = loop.start + loop.period * loop.turns
            if all(end <= other.start or loop.start >= other.start + other.period * other.turns for other in chosen):
                chosen.append(loop)
        return sorted(chosen, key=lambda loop: loop.start)

    def _with_period(self, period: int) -> List[_Loop]:
        signatures, found = self._signatures, []
        same = list(map(int.__eq__, signatures[:-period], signatures[period:]))
        at = 0
        while True:
            try:
                at = same.index(True, at)
                end = same.index(False, at) if False in same[at:at + 2 * period] else at + 2 * period
            except ValueError:
                return found
            if end - at < 2 * period:
                at = end
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
    outputs: List[int] = []
    for instruction in code[end:]:
        for value in references(instruction):
            if value in earlier:
                return None  # What an earlier turn made lives on.
            if value in last and value not in outputs:
                outputs.append(value)
    names = {value: number for number, value in enumerate(arguments + inside)}
    body = {"arguments": len(arguments), "next": [None if one is None else names[one] for one in following],
            "code": [renamed(one, names) for one in first],
            "outputs": [names[value - step * (loop.turns - 1)] for value in outputs]}
    return code[:loop.start] + [["repeat", (loop.turns,), arguments, body, outputs]] + code[end:]


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
