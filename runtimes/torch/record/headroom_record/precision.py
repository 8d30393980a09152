"""What the code of a model asks about precision."""

import inspect
import re
from typing import Any, Iterator

_TEST = re.compile(r"== torch\.float16\b")


def tests_fp16(model: Any) -> bool:
    """Whether the model is another one in fp16 than in bf16: its code tests for it, or some of its modules stay fp32."""
    return getattr(model, "_keep_in_fp32_modules", None) is not None or \
        any(_TEST.search(source) for one in {type(module) for module in model.modules()} for source in _sources(one))


def _sources(one: type) -> Iterator[str]:
    """The Python code of a class and of what it inherits, except for that of PyTorch and the base of all models."""
    for each in one.__mro__:
        if each is not object and each.__module__.split(".")[0] != "torch" and each.__name__ != "PreTrainedModel":
            try:
                yield inspect.getsource(each)
            except (OSError, TypeError):  # Made without a file.
                continue
