"""Configurations without the types of their models."""

from typing import Any, Dict


def without_types(fields: Dict[str, Any]) -> Dict[str, Any]:
    """A configuration that does not say in which type its model, or a part of it, is built: the mode does."""
    return {key: without_types(value) if isinstance(value, dict) else value for key, value in fields.items()
            if key not in ("dtype", "torch_dtype")}
