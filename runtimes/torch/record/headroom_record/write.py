"""The text of a recording, of one model or of a family: JSON with one instruction or entry on a line."""

import json
import math
from typing import Any, Dict, List

_LISTS = ("stacks", "modules", "parameters", "buffers")
_FAMILY = ("headroom_family", "model", "task", "versions", "differs_in_fp16", "keys", "stacks", "sizes", "modules",
           "parameters", "buffers", "gradients", "variants")


def _line(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(finite(value), ensure_ascii=False)


def finite(value: Any) -> Any:
    """The value with null for infinities, which JSON has not: limits of a configuration that are none."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        if list(value) == ["__float__"]:  # As transformers writes them.
            return None
        return {key: finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, (list, tuple)) else value


def _list(values: List[Any], indent: str) -> str:
    if not values:
        return "[]"
    return "[\n" + ",\n".join(f"{indent} {_entry(value, indent + ' ')}" for value in values) + f"\n{indent}]"


def _entry(value: Any, indent: str) -> str:
    """A loop, or the entries of all layers of a stack, has lines of its own."""
    if isinstance(value, dict) and "each" in value and value["kinds"] and isinstance(value["kinds"][0], list):
        kinds = ", ".join(_list(kind, indent + " ") for kind in value["kinds"])
        return f'{{"each": {value["each"]}, "kinds": [{kinds}]}}'
    if isinstance(value, list) and value and value[0] == "repeat":
        kind, count, arguments, body, outputs = value
        return f"[{_line(kind)}, {_line(count)}, {_line(arguments)}, {_coded(body, indent)}, {_line(outputs)}]"
    if isinstance(value, list) and value and value[0] == "each":
        _, stack, loop, outputs = value
        kinds = ", ".join(_coded(kind, indent + " ") for kind in loop["kinds"])
        head = ", ".join(f"{_line(key)}: {_line(loop[key])}" for key in ("first", "first_drops"))
        return f'["each", {stack}, {{{head}, "kinds": [{kinds}]}}, {_line(outputs)}]'
    return _line(value)


def _coded(table: Dict[str, Any], indent: str) -> str:
    """A body, a turn of a loop or a template, with its code one instruction on a line."""
    parts = [f"{_line(key)}: {_list(value, indent) if key == 'code' else _line(value)}" for key, value in table.items()]
    return "{" + ", ".join(parts) + "}"


def _lines(parts: List[str], indent: str) -> str:
    return "[\n" + ",\n".join(parts) + f"\n{indent}]"


def _variant(variant: Dict[str, Any]) -> str:
    parts = []
    for key, value in variant.items():
        if key in ("load", "forward", "layers"):
            written = _list(value, "   ")
        elif key == "bodies":
            written = _lines(["    " + _coded(one, "    ") for one in value], "   ")
        else:
            written = _line(value)
        parts.append(f"   {_line(key)}: {written}")
    return "  {\n" + ",\n".join(parts) + "\n  }"


def text(recording: Dict[str, Any]) -> str:
    parts = []
    for key in [one for one in _FAMILY if one in recording] if "headroom_family" in recording else recording:
        value = recording[key]
        if key in _LISTS:
            written = _list(value, " ")
        elif key == "keys":
            written = "{\n" + ",\n".join(f"  {_line(name)}: {_line(one)}" for name, one in value.items()) + "\n }"
        elif key == "gradients":
            written = _lines(["  " + _coded(one, "  ") for one in value], " ")
        elif key == "variants":
            written = _lines([_variant(one) for one in value], " ")
        else:
            written = _line(value)
        parts.append(f" {_line(key)}: {written}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
