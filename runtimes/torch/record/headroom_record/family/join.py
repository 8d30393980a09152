"""Makes one recording with dimensions of several folded recordings."""

import copy
import json
import re
from typing import Any, Dict, List, Optional, Sequence

from ..merge import Different
from .symbols import Symbols

_CHUNKS = "ceil(S/64)"
_EXPRESSION = re.compile(r"(bytes )?[-+*/ 0-9()BSceil]+$")


def terms_of(value: Any) -> Dict[str, int]:
    """The terms of a size of B and S: their factors as text, with their coefficients."""
    if isinstance(value, int):
        return {"": value}
    result: Dict[str, int] = {}
    for term in value.replace(" - ", " + -").split(" + "):
        number, factors = 1, []
        if term.startswith("-"):
            number, term = -1, term[1:]
        for factor in term.split("*"):
            if factor.isdigit():
                number *= int(factor)
            else:
                factors.append(factor)
        key = "*".join(factors)
        result[key] = result.get(key, 0) + number
    return result


def _times(expression: Any, factors: str) -> List[str]:
    """The terms of `expression` (a number or a sum of products), each times `factors`."""
    if isinstance(expression, int):
        if not factors:
            return [str(expression)]
        return [factors if expression == 1 else f"-{factors}" if expression == -1 else f"{expression}*{factors}"]
    terms = expression.replace(" - ", " + -").split(" + ")
    return [f"{term}*{factors}" if factors else term for term in terms]


def _in_chunks(terms: Sequence[Dict[str, int]]) -> Optional[List[Dict[str, int]]]:
    """The terms with S as chunks of it where other configurations have chunks: 128*ceil(S/64) reads as 2*S."""
    chunked = {key for one in terms for key in one if _CHUNKS in key}
    result = []
    for one in terms:
        own = dict(one)
        for key in chunked - own.keys():
            plain = key.replace(_CHUNKS, "S")
            if plain in own:
                own[key] = 64 * own.pop(plain)
        result.append(own)
    return result if chunked and result != list(terms) else None


class Join:
    """Joins recordings of several configurations."""

    def __init__(self, symbols: Symbols):
        self._symbols = symbols
        self._find = symbols.expression
        self.kernels: set = set()

    def size(self, values: Sequence[Any]) -> Any:
        terms = [terms_of(value) for value in values]
        try:
            return self._sum_of(terms)
        except Different:
            in_chunks = _in_chunks(terms)
            if in_chunks is None:
                raise
            return self._sum_of(in_chunks)

    def _sum_of(self, terms: Sequence[Dict[str, int]]) -> Any:
        keys: List[str] = []
        for one in terms:
            keys += [key for key in one if key not in keys]
        if keys == [""]:
            return self._find([one[""] for one in terms])
        parts: List[str] = []
        for key in keys:
            numbers = [one.get(key, 0) for one in terms]
            expression = self._find(numbers)
            parts += _times(expression, key)
        text = parts[0]
        for part in parts[1:]:
            text += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
        return text

    def joined(self, parts: Sequence[Any], path: str = "") -> Any:
        first = parts[0]
        if all(part == first and type(part) is type(first) for part in parts):
            return first
        if all(_is_size(part) for part in parts):
            return self._sized(parts, path)
        if isinstance(first, dict):
            return self._dictionary(parts, path)
        if isinstance(first, list):
            return self._list(parts, path)
        raise Different(f"{path}: {json.dumps(first)[:80]} in one configuration, "
                        f"{json.dumps(next(part for part in parts if part != first))[:80]} in another")

    def _sized(self, parts: Sequence[Any], path: str) -> Any:
        prefix = ""
        if all(isinstance(part, str) and part.startswith("bytes ") for part in parts):
            prefix, parts = "bytes ", [part[6:] for part in parts]
            parts = [int(part) if part.isdigit() else part for part in parts]
        try:
            found = self.size(parts)
        except Different as error:
            raise Different(f"{path}: {error}") from None
        return f"{prefix}{found}" if prefix else found

    def _dictionary(self, parts: Sequence[Any], path: str) -> Any:
        keys: List[str] = []
        for part in parts:
            if not isinstance(part, dict):
                raise Different(f"{path}: a table in one configuration only")
            keys += [key for key in part if key not in keys]
        result = {}
        for key in keys:
            if any(key not in part for part in parts):
                if key == "inside":  # What the engine knows.
                    continue
                raise Different(f"{path}: \"{key}\" in one configuration, not in another")
            values = [part[key] for part in parts]
            if key == "drops":  # Not told where the first layer alone is of a kind.
                values = [value for value in values if value is not None] or [[]]
            if key == "hands":  # Not told of what no later code uses.
                width = max(len(value) for value in values)
                slots = [[value[at] for value in values if at < len(value) and value[at] is not None] or [None]
                         for at in range(width)]
                result[key] = [self.joined(slot, f"{path}.{key}") for slot in slots]
                continue
            result[key] = self.joined(values, f"{path}.{key}")
        return result

    def _list(self, parts: Sequence[Any], path: str) -> Any:
        if any(not isinstance(part, list) or len(part) != len(parts[0]) for part in parts):
            raise Different(f"{path}: lists of unlike lengths: "
                            + " ".join(str(len(part)) if isinstance(part, list) else "-" for part in parts))
        first = parts[0]
        if first and first[0] == "op" and len(first) == 5:
            if any(part[1] != first[1] for part in parts):
                raise Different(f"{path}: operators " + " ".join(str(part[1]) for part in parts))
            parts = self._with_like_inside(parts)
        where = f"{path}/{first[1]}" if first and first[0] == "op" else path
        return [self.joined(values, f"{where}[{at}]") for at, values in enumerate(zip(*parts))]

    def _with_like_inside(self, parts: Sequence[Any]) -> Sequence[Any]:
        if all("inside" not in part[4] for part in parts):
            return parts
        try:
            self._find = self._symbols.product  # What kernels take is no sum of dimensions.
            if all("inside" in part[4] for part in parts):
                self.joined([part[4]["inside"] for part in parts])
                return parts
        except Different:
            pass
        finally:
            self._find = self._symbols.expression
        self.kernels.add(parts[0][1])
        return [part[:4] + [{key: value for key, value in part[4].items() if key != "inside"}] for part in parts]


def _is_size(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, str) and _EXPRESSION.match(value) is not None)


def with_tables(family: Dict[str, Any]) -> None:
    """Templates of gradients and bodies go back into tables, each once."""
    gradients: Dict[str, int] = {}

    def outline(code: List[Any]) -> None:
        for at, instruction in enumerate(code):
            if instruction[0] == "repeat":
                outline(instruction[3]["code"])
            elif instruction[0] == "each":
                for kind in instruction[2]["kinds"]:
                    outline(kind["code"])
            elif instruction[0] in ("op", "node"):
                extra = instruction[4]
                if "gradient" in extra:
                    outline(extra["gradient"]["code"])
                    extra["gradient"] = gradients.setdefault(json.dumps(extra["gradient"]), len(gradients))
                if not extra:
                    code[at] = instruction[:4]

    for variant in family["variants"]:
        bodies: Dict[str, int] = {}
        outline(variant.get("load", []))
        outline(variant["forward"])
        for layer in variant["layers"]:
            for key in ("kinds", "body"):
                if key in layer:
                    own = [copy.deepcopy(one) for one in (layer[key] if key == "kinds" else [layer[key]])]
                    for body in own:
                        outline(body["code"])
                    numbers = [bodies.setdefault(json.dumps(body), len(bodies)) for body in own]
                    layer[key] = numbers if key == "kinds" else numbers[0]
        variant["bodies"] = [json.loads(one) for one in bodies]
    family["gradients"] = [json.loads(one) for one in gradients]
