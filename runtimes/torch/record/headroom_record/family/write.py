"""The text of a family's recording: JSON with one instruction or entry on a line."""

import json
from typing import Any, Dict, List

_TABLES = ("stacks", "modules", "parameters", "buffers")


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: List[Any], indent: str) -> str:
    if not values:
        return "[]"
    return "[\n" + ",\n".join(f"{indent} {_entry(value, indent + ' ')}" for value in values) + f"\n{indent}]"


def _entry(value: Any, indent: str) -> str:
    """A loop over layers, or the entries of its layers, has lines of its own."""
    if isinstance(value, dict) and "each" in value and value["kinds"] and isinstance(value["kinds"][0], list):
        kinds = ", ".join(_list(kind, indent + " ") for kind in value["kinds"])
        return f'{{"each": {value["each"]}, "kinds": [{kinds}]}}'
    if isinstance(value, list) and value and value[0] == "each":
        _, stack, loop, outputs = value
        kinds = ", ".join(f'{{"code": {_list(kind["code"], indent + " ")}, "hands": {_line(kind["hands"])}, '
                          f'"drops": {_line(kind["drops"])}}}'
                          for kind in loop["kinds"])
        head = ", ".join(f"{_line(key)}: {_line(loop[key])}" for key in ("first", "first_drops"))
        return f'["each", {stack}, {{{head}, "kinds": [{kinds}]}}, {_line(outputs)}]'
    return _line(value)


def _variant(variant: Dict[str, Any]) -> str:
    parts = []
    for key, value in variant.items():
        if key in ("load", "forward", "layers"):
            written = _list(value, "   ")
        elif key == "bodies":
            written = "[\n" + ",\n".join(_coded(one, "    ") for one in value) + "\n   ]"
        else:
            written = _line(value)
        parts.append(f"   {_line(key)}: {written}")
    return "  {\n" + ",\n".join(parts) + "\n  }"


def _coded(table: Dict[str, Any], indent: str) -> str:
    """A body or a template, with its code one instruction on a line."""
    parts = [f"{_line(key)}: {_list(value, indent) if key == 'code' else _line(value)}" for key, value in table.items()]
    return indent + "{" + ", ".join(parts) + "}"


def text(family: Dict[str, Any]) -> str:
    order = ("headroom_family", "model", "task", "versions", "keys", "stacks", "sizes", "modules", "parameters",
             "buffers", "gradients", "variants")
    parts = []
    for key in order:
        value = family[key]
        if key in _TABLES:
            written = _list(value, " ")
        elif key == "keys":
            written = "{\n" + ",\n".join(f"  {_line(name)}: {_line(one)}" for name, one in value.items()) + "\n }"
        elif key == "gradients":
            written = "[\n" + ",\n".join(_coded(one, "  ") for one in value) + "\n ]"
        elif key == "variants":
            written = "[\n" + ",\n".join(_variant(one) for one in value) + "\n ]"
        else:
            written = _line(value)
        parts.append(f" {_line(key)}: {written}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
