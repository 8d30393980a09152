"""Whether a model is the same one in every precision."""

import inspect
import re
from typing import Any, Iterator

# Code for fp16 alone, and a softmax whose input is cast in Python: one that takes a type casts bf16, not fp16.
_TEST = re.compile(r"== torch\.float16\b|softmax\([^)]*\.float\(\)")


def differs_in_fp16(model: Any) -> bool:
    """Whether the model may be another one in fp16 than in bf16: its code tests for it, or some modules stay fp32."""
    return bool(getattr(model, "_keep_in_fp32_modules", None)) or \
        any(_TEST.search(source) for one in {type(module) for module in model.modules()} for source in _sources(one))


def _sources(one: type) -> Iterator[str]:
    """The Python code of a class and of what it inherits, except for that of PyTorch and the base of all models."""
    for each in one.__mro__:
        if each is not object and each.__module__.split(".")[0] != "torch" and each.__name__ != "PreTrainedModel":
            try:
                yield inspect.getsource(each)
            except (OSError, TypeError):  # Made without a file.
                continue
