"""Liger's kernels in the place of a model's own code: norms, rotary embedding, gated products.

They are Triton kernels inside custom autograd functions. The functions run, and are recorded like the code of the
model. A launch of a kernel is recorded as an operator without outputs, which is what the engine's clock needs of it;
the kernel itself is left out, since nothing is computed.
Source: linkedin/Liger-Kernel 0.8.5, src/liger_kernel/transformers/monkey_patch.py.
"""

import contextlib
import inspect
import sys
from typing import Any, Dict, Iterator, List, Tuple

import torch


class NoKernels(Exception):
    """Liger has no kernels for a model; the text says why."""


def knows(kind: str) -> bool:
    try:
        from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN
    except ImportError:
        return False
    return kind in MODEL_TYPE_TO_APPLY_LIGER_FN


def _put_into(model: Any) -> None:
    """Liger's kernels without its losses, as `--liger_kernel_config` of transformers' Trainer puts them in."""
    kind = model.config.model_type
    if not knows(kind):
        raise NoKernels(f"Liger has no kernels for models of type {kind}, or is not installed: "
                        "pip install liger-kernel")
    from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN
    apply = MODEL_TYPE_TO_APPLY_LIGER_FN[kind]
    losses = {"cross_entropy": False, "fused_linear_cross_entropy": False}
    known = inspect.signature(apply).parameters
    apply(model=model, **{name: value for name, value in losses.items() if name in known})


@contextlib.contextmanager
def kernels_in(model: Any) -> Iterator[None]:
    """The model with Liger's kernels. Liger also writes into the modules that define the model's classes, and renames
    classes; both are put back for models that are built later."""
    modules = {sys.modules[type(one).__module__] for one in model.modules()}
    modules |= {one for name, one in sys.modules.items() if name.startswith("transformers.models.") and one is not None}
    before: List[Tuple[Any, Dict[str, Any]]] = [(module, dict(vars(module))) for module in modules]
    names = {type(one): type(one).__name__ for one in model.modules()}
    try:
        _put_into(model)
        for kind, name in names.items():
            kind.__name__ = name
        yield
    finally:
        for module, written in before:
            vars(module).update(written)


@contextlib.contextmanager
def launches_of(observer: Any) -> Iterator[None]:
    """Records the launches of Triton's kernels instead of compiling and starting them."""
    import triton

    def launched(self: Any, *args: Any, **kwargs: Any) -> None:
        given = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor) and one.is_cuda]
        name = self.fn.__name__.strip("_").replace("block_", "")  # Kernels for many rows have the same memory.
        observer.launched(f"triton_{name}", given)

    compiled, tuned = triton.runtime.JITFunction.run, triton.runtime.Autotuner.run
    triton.runtime.JITFunction.run = launched
    triton.runtime.Autotuner.run = lambda self, *args, **kwargs: self.fn.run(*args, **kwargs)
    try:
        yield
    finally:
        triton.runtime.JITFunction.run, triton.runtime.Autotuner.run = compiled, tuned


def around(model: Any, kernels: bool, observer: Any) -> Any:
    """What recording a model runs in: `kernels` says whether they are Liger's."""
    stack = contextlib.ExitStack()
    if kernels:
        stack.enter_context(kernels_in(model))
        stack.enter_context(launches_of(observer))
    return stack
