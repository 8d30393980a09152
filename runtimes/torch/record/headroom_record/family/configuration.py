"""Configurations as flat tables: keys of nested parts have dots."""

from typing import Any, Dict

# A dimension of batches, which no config.json has: the images of every sequence. Recordings write it as I.
IMAGES = "images.count"


def flat(config: Dict[str, Any], prefix: str = "", lists: bool = False) -> Dict[str, Any]:
    """Numbers and texts of a configuration by their paths; lists too if they are asked for."""
    result: Dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict) and all(isinstance(one, str) for one in value):  # Tables of numbers are values.
            if key not in ("id2label", "label2id", "task_specific_params", "auto_map", "quantization_config"):
                result.update(flat(value, f"{prefix}{key}.", lists))
        elif not isinstance(value, list) or (lists and key != "architectures"):
            result[prefix + key] = value
    return result


def with_value(config: Dict[str, Any], path: str, value: Any) -> Dict[str, Any]:
    """A copy of a configuration with another value at a path."""
    head, _, rest = path.partition(".")
    result = dict(config)
    result[head] = with_value(dict(config.get(head) or {}), rest, value) if rest else value
    return result
