"""Sizes as expressions of the micro-batch B and the sequence S, found from several runs."""

import functools
import itertools
import math
from fractions import Fraction
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

# Powers of B and S, by descending degree.
_MONOMIALS = ((1, 2), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0))
_DIVISORS = tuple(2 ** power for power in range(1, 13)) + (3, 5, 6, 7, 9, 10, 12, 20, 24, 48, 50, 96, 100)

_CHUNK = 64  # As plan.py: code that pads to multiples does so to multiples of this.


class NoExpression(Exception):
    """A size that is no expression of B and S."""


def _product(number: int, b: int, s: int, quotient: int = 0) -> str:
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


def _inverse(matrix: List[List[Fraction]]) -> Optional[List[List[Fraction]]]:
    count = len(matrix)
    rows = [row + [Fraction(int(at == other)) for other in range(count)] for at, row in enumerate(matrix)]
    for pivot in range(count):
        best = next((row for row in range(pivot, count) if rows[row][pivot]), None)
        if best is None:
            return None
        rows[pivot], rows[best] = rows[best], rows[pivot]
        head = rows[pivot][pivot]
        rows[pivot] = [value / head for value in rows[pivot]]
        for row in range(count):
            factor = rows[row][pivot]
            if row != pivot and factor:
                rows[row] = [value - factor * other for value, other in zip(rows[row], rows[pivot])]
    return [row[count:] for row in rows]


class _Terms:
    """Sums of given columns, with whole coefficients."""

    def __init__(self, columns: Sequence[Sequence[int]]):
        self._columns = columns
        count = len(columns)
        self._chosen: Tuple[int, ...] = ()
        self._rows: List[List[int]] = []
        self._common = 1
        for chosen in itertools.combinations(range(len(columns[0])), count):
            inverse = _inverse([[Fraction(column[at]) for column in columns] for at in chosen])
            if inverse is not None:
                self._chosen = chosen
                self._common = math.lcm(*(value.denominator for row in inverse for value in row))
                self._rows = [[int(value * self._common) for value in row] for row in inverse]
                break

    def coefficients(self, values: Sequence[int]) -> Optional[List[int]]:
        """Whole numbers, none of them 0, with which the columns add up to the values at every point."""
        found = []
        for row in self._rows:
            total = sum(one * values[at] for one, at in zip(row, self._chosen))
            if total == 0 or total % self._common:
                return None
            found.append(total // self._common)
        if not found:
            return None
        for at, value in enumerate(values):
            if sum(number * column[at] for number, column in zip(found, self._columns)) != value:
                return None
        return found


@functools.lru_cache(maxsize=64)
def _tried(points: Tuple[Tuple[int, int], ...]) -> List[Tuple[_Terms, Tuple[Tuple[int, int, int], ...]]]:
    """All forms of expressions, the simplest first. A term is the powers of B and S, and a divisor or 0."""
    def column(term: Tuple[int, int, int]) -> List[int]:
        b, s, divisor = term
        return [pb ** b * ps ** s * (-(-ps // divisor) if divisor else 1) for pb, ps in points]

    alone = len({b for b, _ in points}) == 1
    monomials = [one for one in _MONOMIALS if not (alone and one[0])]
    forms = [tuple((b, s, 0) for b, s in chosen) for count in (1, 2, 3)
             for chosen in itertools.combinations(monomials, count)]
    divisors = list(_DIVISORS)
    if all(ps % _CHUNK == 0 for _, ps in points):  # S/2 is as well 32 chunks of 64: as chunks, heads stay apart.
        divisors = [_CHUNK] + [divisor for divisor in divisors if divisor != _CHUNK]
    for divisor in divisors:
        for b, s in ((0, 0), (0, 1)) if alone else ((0, 0), (1, 0), (0, 1), (1, 1)):
            forms += [((b, s, divisor),) + more
                      for more in ((), ((0, 0, 0),), ((1, 1, 0),), ((1, 0, 0),), ((0, 1, 0),))
                      if not (alone and more and more[0][0])]
    return [(_Terms([column(term) for term in form]), form) for form in forms]


class Sizes:
    """Finds expressions for sizes at fixed points (B, S)."""

    def __init__(self, points: Sequence[Tuple[int, int]]):
        self.points = list(points)
        self.kernels: Set[str] = set()  # Operators whose temporaries are no expressions.
        self.loops = False  # Whether code is longer at one size than at another.
        self._forms = _tried(tuple(self.points))
        self._known: Dict[Tuple[int, ...], Any] = {}

    def expression(self, values: Tuple[int, ...]) -> Any:
        found = self._known.get(values)
        if found is None:
            try:
                found = self._find(values)
            except NoExpression as error:
                found = error
            self._known[values] = found
        if isinstance(found, NoExpression):
            raise found
        return found

    def _find(self, values: Tuple[int, ...]) -> Any:
        if len(set(values)) == 1:
            return values[0]
        for terms, form in self._forms:
            found = terms.coefficients(values)
            if found is not None:
                return _sum([_product(number, *term) for number, term in zip(found, form)])
        raise NoExpression(" ".join(f"{value} at {b}x{s}" for value, (b, s) in zip(values, self.points)))


def value_of(expression: Any, micro_batch: int, sequence: int) -> int:
    """What an expression of this module is at one size."""
    if isinstance(expression, int):
        return expression
    total = 0
    for term in expression.replace(" - ", " + -").split(" + "):
        product = 1
        for factor in term.split("*"):
            if factor.startswith("-") and not factor[1:].isdigit():
                product, factor = -product, factor[1:]
            if factor.startswith("ceil"):
                product *= -(-sequence // int(factor[len("ceil(S/"):-1]))
            else:
                product *= {"B": micro_batch, "S": sequence}.get(factor) or int(factor)
        total += product
    return total
