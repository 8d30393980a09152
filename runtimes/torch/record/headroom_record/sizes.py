"""Sizes as expressions of the micro-batch B and the sequence S, found from several runs."""

import itertools
from fractions import Fraction
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

_LETTERS = (("B", 1, 0), ("S", 0, 1))
# Powers of B and S, by descending degree.
_MONOMIALS = ((1, 2), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0))
_DIVISORS = tuple(2 ** power for power in range(1, 13)) + (3, 5, 6, 7, 9, 10, 12, 20, 24, 48, 50, 96, 100)


class NoExpression(Exception):
    """A size that is no expression of B and S."""


def _product(number: Fraction, b: int, s: int, quotient: int = 0) -> str:
    factors = []
    if number != 1 or not (b or s or quotient):
        factors.append(str(number))
    factors += ["B"] * b + ["S"] * s
    if quotient:
        factors.append(f"ceil(S/{quotient})")
    return "*".join(factors)


def _sum(terms: Sequence[str]) -> str:
    text = terms[0]
    for term in terms[1:]:
        text += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
    return text


def _solve(columns: Sequence[Sequence[int]], values: Sequence[int]) -> Optional[List[Fraction]]:
    """The coefficients with which the columns add up to the values, if they do at every point."""
    count = len(columns)
    rows = [[Fraction(column[at]) for column in columns] + [Fraction(values[at])] for at in range(len(values))]
    for pivot in range(count):
        best = next((row for row in range(pivot, len(rows)) if rows[row][pivot]), None)
        if best is None:
            return None
        rows[pivot], rows[best] = rows[best], rows[pivot]
        head = rows[pivot][pivot]
        rows[pivot] = [value / head for value in rows[pivot]]
        for row, entries in enumerate(rows):
            if row != pivot and entries[pivot]:
                factor = entries[pivot]
                rows[row] = [value - factor * other for value, other in zip(entries, rows[pivot])]
    if any(row[count] for row in rows[count:]):
        return None
    return [rows[at][count] for at in range(count)]


class Sizes:
    """Finds expressions for sizes at fixed points (B, S)."""

    def __init__(self, points: Sequence[Tuple[int, int]]):
        self.points = list(points)
        self.kernels: Set[str] = set()  # Operators whose temporaries are no expressions.
        self._known: Dict[Tuple[int, ...], Any] = {}

    def expression(self, values: Tuple[int, ...]) -> Any:
        if values not in self._known:
            self._known[values] = self._find(values)
        return self._known[values]

    def _find(self, values: Tuple[int, ...]) -> Any:
        if len(set(values)) == 1:
            return values[0]
        columns = {(b, s): [pb ** b * ps ** s for pb, ps in self.points] for b, s in _MONOMIALS}
        for count in (1, 2, 3):
            for chosen in itertools.combinations(_MONOMIALS, count):
                found = _solve([columns[one] for one in chosen], values)
                if found is not None and all(found) and all(one.denominator == 1 for one in found):
                    return _sum([_product(number, b, s) for number, (b, s) in zip(found, chosen)])
        return self._with_quotient(values, columns)

    def _with_quotient(self, values: Tuple[int, ...], columns: Dict[Tuple[int, int], List[int]]) -> str:
        for divisor in _DIVISORS:
            quotients = [-(-s // divisor) for _, s in self.points]
            for b, s in ((0, 0), (1, 0), (0, 1), (1, 1)):
                column = [value * other for value, other in zip(columns[b, s], quotients)]
                for more in ((), ((0, 0),), ((1, 1),), ((1, 0),), ((0, 1),)):
                    found = _solve([column] + [columns[one] for one in more], values)
                    if found is not None and all(found) and all(one.denominator == 1 for one in found):
                        terms = [_product(found[0], b, s, divisor)]
                        terms += [_product(number, *one) for number, one in zip(found[1:], more)]
                        return _sum(terms)
        raise NoExpression(" ".join(f"{value} at {b}x{s}" for value, (b, s) in zip(values, self.points)))
