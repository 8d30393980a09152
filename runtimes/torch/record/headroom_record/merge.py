"""Makes one symbolic trace of the traces of several sizes."""

from typing import Any, List, Sequence, Tuple

from .sizes import NoExpression, Sizes


class Different(Exception):
    """Two traces part, or a size is no expression."""

    loops = False  # Whether code is longer at one size than at another.


def _merged(parts: Sequence[Any], sizes: Sizes) -> Any:
    first = parts[0]
    kind = type(first)
    if kind is tuple:
        if any(type(part) is not tuple or len(part) != len(first) for part in parts):
            raise Different("a tensor has more dimensions at one size than at another")
        return [sizes.expression(values) if type(values[0]) is int else _merged(values, sizes)
                for values in zip(*parts)]
    if kind is list and first and first[0] == "op":
        parts = _with_like_inside(parts, sizes)
    if kind is list:
        if any(type(part) is not list or len(part) != len(first) for part in parts):
            raise Different("one has more than the other")
        return [_merged(values, sizes) for values in zip(*parts)]
    if kind is dict:
        if any(type(part) is not dict or part.keys() != first.keys() for part in parts):
            raise Different("one has what the other does not have")
        return {key: _merged([part[key] for part in parts], sizes) for key in first}
    if any(part != first for part in parts):
        if all(type(part) is int for part in parts):
            return sizes.expression(tuple(parts))
        raise Different(f"{first} here, {next(part for part in parts if part != first)} there")
    return first


def _with_like_inside(parts: Sequence[Any], sizes: Sizes) -> Sequence[Any]:
    """Operators without "inside" where their kernels, and so their temporaries, depend on more than B and S."""
    insides = [part[4].get("inside") for part in parts if len(part) > 4]
    if all(inside is None for inside in insides):
        return parts
    name = parts[0][1]
    if "dot_product" not in name:
        try:
            _merged(insides, sizes)
            return parts
        except (Different, NoExpression):
            pass
    sizes.kernels.add(name)
    return [part[:4] + [{key: value for key, value in part[4].items() if key != "inside"}] for part in parts]


def merge(codes: Sequence[List[Any]], places: Sequence[List[Tuple[str, int]]], sizes: Sizes) -> List[Any]:
    """One code for all sizes; an error names the operator and the line of Python where they part."""
    result: List[Any] = []
    for index, parts in enumerate(zip(*codes)):
        try:
            if any(part[0] != parts[0][0] or (part[0] == "op" and part[1] != parts[0][1]) for part in parts):
                raise Different("the code runs another operator at another size")
            if parts[0][0] == "drop" and any(part != parts[0] for part in parts):
                raise Different("values die in another order at another size")
            result.append(_merged(parts, sizes))
        except (Different, NoExpression) as error:
            raise Different(describe(parts, places, index, sizes, str(error))) from None
    if len({len(code) for code in codes}) != 1:
        index = len(result)
        raise Different(describe([code[min(index, len(code) - 1)] for code in codes], places, index, sizes,
                                 "the code is longer at one size than at another"))
    return result


def describe(parts: Sequence[Any], places: Sequence[List[Tuple[str, int]]], index: int, sizes: Sizes,
             reason: str) -> str:
    names = [f"{part[1] if part[0] in ('op', 'node', 'linear', 'enter', 'leave') else part[0]} at {b}x{s}"
             for part, (b, s) in zip(parts, sizes.points)]
    if len({name.split(" at ")[0] for name in names}) == 1:
        names = [names[0].split(" at ")[0]]
    where = next((f"{file}:{line}" for place in places for file, line in place[max(0, index - 3):index + 1][::-1]
                  if file), "")
    return f"operator {', '.join(names)} ({where}): {reason}"
