"""Packages whose kernels the code of a model would run if they were installed, in place of operators of PyTorch."""

import re
from typing import Any, Dict

_MISSING = re.compile(r"falling back .* because `([^`]+)` is not installed")
_found: Dict[str, None] = {}


def watch() -> None:
    """Reads the warnings of transformers (integrations/hub_kernels.py, use_kernel_func_from_hub_with_fallback)."""
    try:
        from transformers.integrations.hub_kernels import logger
    except ImportError:
        return  # Releases before 5 have no such functions.

    _found.clear()
    original = getattr(logger.warning_once, "headroom_original", logger.warning_once)

    def note(text: str, *arguments: Any, **options: Any) -> None:
        match = _MISSING.search(text)
        if match:
            _found[match.group(1)] = None
        else:
            original(text, *arguments, **options)

    note.headroom_original = original
    logger.warning_once = note


def missing() -> Dict[str, None]:
    """The packages by their names. They stand among the versions of what is installed, with no version."""
    return dict.fromkeys(sorted(_found))
