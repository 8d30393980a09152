"""The text of a recording: JSON with one instruction on a line."""

import json
from typing import Any, Dict, List


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: List[Any], indent: str) -> str:
    if not values:
        return "[]"
    lines = ",\n".join(indent + " " + _instruction(value, indent + " ") for value in values)
    return "[\n" + lines + "\n" + indent + "]"


def _instruction(value: Any, indent: str) -> str:
    if not (isinstance(value, list) and value and value[0] == "repeat"):
        return _line(value)
    kind, count, arguments, body, outputs = value
    return (f'[{_line(kind)}, {_line(count)}, {_line(arguments)}, {{"arguments": {body["arguments"]}, '
            f'"next": {_line(body["next"])}, "code": {_list(body["code"], indent)}, '
            f'"outputs": {_line(body["outputs"])}}}, {_line(outputs)}]')


def _template(template: Dict[str, Any], indent: str) -> str:
    head = f'{indent}{{"name": {_line(template["name"])}, "edges": {_line(template["edges"])}, "code": '
    return head + _list(template["code"], indent) + f', "results": {_line(template["results"])}}}'


def _body(body: Dict[str, Any], indent: str) -> str:
    return (f'{indent}{{"arguments": {body["arguments"]}, "code": ' + _list(body["code"], indent) +
            f', "outputs": {_line(body["outputs"])}}}')


def text(recording: Dict[str, Any]) -> str:
    parts = []
    for key, value in recording.items():
        if key in ("modules", "parameters", "buffers"):
            written = _list(value, " ")
        elif key == "gradients":
            written = "[\n" + ",\n".join(_template(one, "  ") for one in value) + "\n ]"
        elif key == "variants":
            written = "[\n" + ",\n".join(_variant(one) for one in value) + "\n ]"
        else:
            written = _line(value)
        parts.append(f" {_line(key)}: {written}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _variant(variant: Dict[str, Any]) -> str:
    parts = []
    for key, value in variant.items():
        if key in ("load", "forward", "layers"):
            written = _list(value, "   ")
        elif key == "bodies":
            written = "[\n" + ",\n".join(_body(one, "    ") for one in value) + "\n   ]"
        else:
            written = _line(value)
        parts.append(f"   {_line(key)}: {written}")
    return "  {\n" + ",\n".join(parts) + "\n  }"
