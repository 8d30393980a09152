"""Finds whole numbers as expressions of the dimensions of a configuration, from several configurations."""

import itertools
from fractions import Fraction
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..merge import Different

_LARGEST = 16  # Of a coefficient's numerator and denominator.


def _text(number: Fraction, names: Sequence[str], under: Sequence[str]) -> str:
    factors = [str(number.numerator)] if number.numerator != 1 or not names else []
    if number.numerator == -1 and names:
        factors = ["-1"]
    factors += names
    text = "*".join(factors)
    for name in list(under) + ([str(number.denominator)] if number.denominator != 1 else []):
        text += f"/{name}"
    return text


class Symbols:
    """The dimensions of several configurations, and numbers as expressions of them."""

    def __init__(self, dimensions: Dict[str, Sequence[int]]):
        """`dimensions`: for each key its value in every configuration; keys whose value never varies are left out."""
        self.names = [name for name, values in dimensions.items() if len(set(values)) > 1]
        self._columns = {name: list(dimensions[name]) for name in self.names}
        self.count = len(next(iter(dimensions.values()))) if dimensions else 1
        self._monomials = self._tried()
        self._known: Dict[Tuple[int, ...], Optional[str]] = {}

    def _tried(self) -> List[Tuple[Tuple[str, ...], Tuple[str, ...], List[Fraction], List[float]]]:
        """Products of up to three dimensions, perhaps over one, the simplest first."""
        result = []
        seen = set()
        for size, over in ((1, 0), (2, 0), (1, 1), (2, 1), (3, 0), (3, 1)):
            for names in itertools.combinations_with_replacement(self.names, size):
                for under in itertools.combinations(self.names, over):
                    if set(under) & set(names):
                        continue
                    values = []
                    for at in range(self.count):
                        value = Fraction(1)
                        for name in names:
                            value *= self._columns[name][at]
                        for name in under:
                            value /= max(1, self._columns[name][at])
                        values.append(value)
                    if len(set(values)) == 1 or any(value == 0 for value in values) or (
                            under and any(value.denominator != 1 for value in values)):
                        continue
                    key = tuple(value / values[0] for value in values)
                    if key not in seen or (size, over) == (1, 0):  # A dimension stands for itself.
                        seen.add(key)
                        result.append((names, under, values, [float(value) for value in values]))
        return result

    def expression(self, values: Sequence[int]) -> Any:
        """The number itself if it is one, or an expression; raises Different."""
        if len(set(values)) == 1:
            return values[0]
        key = tuple(values)
        if key not in self._known:
            self._known[key] = self._find(key)
        found = self._known[key]
        if found is None:
            raise Different("no expression of the configuration: " + " ".join(str(value) for value in values))
        return found

    def product(self, values: Sequence[int]) -> Any:
        """As `expression`, but a product of at most two dimensions and a whole number only."""
        if len(set(values)) == 1:
            return values[0]
        for names, under, column, _ in self._monomials:
            ratio = Fraction(values[0]) / column[0]
            if len(names) <= 2 and not under and ratio.denominator == 1 and all(
                    ratio * one == value for one, value in zip(column, values)):
                return _text(ratio, names, under)
        raise Different("no product of dimensions")

    def _find(self, values: Tuple[int, ...]) -> Optional[str]:
        simple = [one for one in self._monomials if len(one[0]) <= 2]
        itself = next((name for name in self.names if tuple(self._columns[name]) == values), None)
        if itself is not None:  # Rather than four times the hidden size, which happens to be the same.
            return itself
        for names, under, column, _ in self._monomials:
            ratio = Fraction(values[0]) / column[0]
            if _is_small(ratio) and all(ratio * one == value for one, value in zip(column, values)):
                return _text(ratio, names, under)
        found = self._of_terms(values, [one for one in simple], 1, True)
        found = found or self._of_terms(values, simple, 2, False)
        found = found or self._of_terms(values, [one for one in simple if not one[1]], 2, True)
        found = found or self._of_terms(values, [one for one in simple if not one[1]][:24], 3, False)
        return found or self._of_three(values) or self._of_any_factor(values)

    def _of_three(self, values: Tuple[int, ...]) -> Optional[str]:
        """Three products of at most two dimensions, each a few times, such as all that one projection makes."""
        if self.count < 5:
            return None
        terms: List[Tuple[Tuple[int, ...], str]] = []
        for names, under, column, _ in self._monomials:
            if under or len(names) > 2:
                continue
            for factor in (1, 2, 3, 4):
                times = tuple(factor * int(one) for one in column)
                if all(one < value for one, value in zip(times, values)):
                    terms.append((times, _text(Fraction(factor), names, ())))
        known = {times: text for times, text in terms}
        first = {times[0] for times in known}
        for at, (one, text) in enumerate(terms):
            rest = tuple(value - mine for value, mine in zip(values, one))
            for other, more in terms[at + 1:]:
                if rest[0] - other[0] in first:
                    last = known.get(tuple(value - mine for value, mine in zip(rest, other)))
                    if last is not None:
                        return _sum([text, more, last])
        return None

    def _of_any_factor(self, values: Tuple[int, ...]) -> Optional[str]:
        """A dimension times any whole number, which dimensions that never vary are behind."""
        for names, under, column, _ in self._monomials:
            ratio = Fraction(values[0]) / column[0]
            if len(names) == 1 and not under and ratio.denominator == 1 and all(
                    ratio * one == value for one, value in zip(column, values)):
                return _text(ratio, names, under)
        return None

    def _of_terms(self, values: Tuple[int, ...], monomials: Sequence[Any], count: int, constant: bool) \
            -> Optional[str]:
        unknowns = count + int(constant)
        if unknowns >= self.count:
            return None
        one_column = [1.0] * self.count
        for chosen in itertools.combinations(monomials, count):
            rough = [one[3] for one in chosen] + ([one_column] if constant else [])
            if unknowns == 2 and not _fits(rough[0], rough[1], values):
                continue
            columns = [one[2] for one in chosen] + ([[Fraction(1)] * self.count] if constant else [])
            found = _solved(columns, values)
            if found is None or any(number == 0 for number in found):
                continue
            if any(not _is_likely(number, one[0]) for number, one in zip(found, chosen)):
                continue
            if constant and (found[-1].denominator != 1 or abs(found[-1]) > 4096):
                continue
            terms = [_text(number, one[0], one[1]) for number, one in zip(found, chosen)]
            if constant:
                terms.append(str(found[-1]))
            return _sum(terms)
        return None


def _sum(terms: Sequence[str]) -> str:
    positive = [term for term in terms if not term.startswith("-")]
    negative = [term[3:] if term.startswith("-1*") else term[1:] for term in terms if term.startswith("-")]
    if not positive:
        return " - ".join(["0"] + negative)
    return " + ".join(positive) + "".join(f" - {term}" for term in negative)


def _is_small(number: Fraction) -> bool:
    return abs(number.denominator) <= _LARGEST and (
        abs(number.numerator) <= _LARGEST or abs(number.numerator) & (abs(number.numerator) - 1) == 0)


def _fits(one: Sequence[float], other: Sequence[float], values: Sequence[int]) -> bool:
    """Whether two columns may add up to the values; quick, and never wrongly false."""
    under = one[0] * other[1] - one[1] * other[0]
    if under == 0:
        return one[0] * values[1] == one[1] * values[0] or len(set(values[:2])) == 1
    first = (values[0] * other[1] - values[1] * other[0]) / under
    second = (one[0] * values[1] - one[1] * values[0]) / under
    return all(abs(first * mine + second * theirs - value) <= 1e-6 * (abs(first * mine) + abs(second * theirs) + 1)
               for mine, theirs, value in zip(one[2:], other[2:], values[2:]))


def _is_likely(number: Fraction, names: Sequence[str]) -> bool:
    """Whether code adds so many of these products to others: few, and none less than none of several factors."""
    return abs(number) <= 8 and number.denominator <= 2 and (number > 0 or len(names) == 1)


def _solved(columns: Sequence[Sequence[Fraction]], values: Sequence[int]) -> Optional[List[Fraction]]:
    """Coefficients with which the columns add up to the values at every configuration."""
    count = len(columns)
    rows = [[column[at] for column in columns] + [Fraction(values[at])] for at in range(len(values))]
    rank = 0
    for column in range(count):
        pivot = next((row for row in range(rank, len(rows)) if rows[row][column] != 0), None)
        if pivot is None:
            return None
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        head = rows[rank][column]
        rows[rank] = [value / head for value in rows[rank]]
        for row in range(len(rows)):
            factor = rows[row][column]
            if row != rank and factor != 0:
                rows[row] = [value - factor * other for value, other in zip(rows[row], rows[rank])]
        rank += 1
    if any(row[count] != 0 for row in rows[rank:]):
        return None
    return [rows[at][count] for at in range(count)]
