"""Values of small tensors on the device, which computes nothing: what follows from known ones is computed on the host.

Code for images reads sizes of grids and kinds of tokens from the device, and makes shapes of them.
"""

from typing import Any, Dict, List, Optional

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from .standin import StandIn

_MOST = 1 << 20  # Elements of a tensor of whole numbers that is computed on the host.
_MOST_REAL = 1 << 12  # The same of real numbers, which become sizes after a few operators only.
_UNKNOWN = ("empty", "rand", "bernoulli", "dropout", "normal", "multinomial")
_FINDING = ("nonzero", "masked_select")  # They count elements that are true.
_WITH_MASKS = ("index", "index_put", "index_put_", "_index_put_impl_")  # The same of the masks among their indices.
_MAKING = ("arange", "zeros", "ones", "full", "scalar_tensor", "linspace", "eye")


class _Unknown(Exception):
    """A value that the host does not know."""


class HostValues:
    """Copies on the host of tensors whose values are known. A copy lives as long as Python has the tensor."""

    def __init__(self) -> None:
        self._device = StandIn()
        self._wrong: Dict[int, torch.Tensor] = {}  # Memory of copies into which something unknown was written.

    def tell(self, tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
        """`tensor` has the values of `copy`, which nobody else changes."""
        tensor._headroom_host = copy
        return tensor

    def of(self, tensor: torch.Tensor) -> Optional[torch.Tensor]:
        copy = getattr(tensor, "_headroom_host", None)
        return None if copy is None or copy.untyped_storage()._cdata in self._wrong else copy

    def hand_on(self, tensor: torch.Tensor, other: torch.Tensor) -> None:
        """`other` stands for `tensor`."""
        copy = self.of(tensor)
        if copy is not None:
            self.tell(other, copy)

    def call(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        """The operator on the device, with its sizes as they are; values that are read are those of the host."""
        name = func._schema.name.partition("::")[2]
        if any(name.startswith(one) for one in _UNKNOWN):
            return func(*args, **kwargs)
        on_device = [one for one in _tensors((args, kwargs)) if one.is_cuda]
        if not on_device and not any(name.startswith(one) for one in _MAKING) and name not in ("_to_copy", "lift_fresh"):
            return func(*args, **kwargs)
        if name == "lift_fresh":
            return self._lifted(func(*args, **kwargs))
        if name == "repeat_interleave" and func._overloadname == "Tensor" and kwargs.get("output_size") is None:
            repeats = self.of(args[0])
            if repeats is not None:  # Inside, the operator reads the sum from the device.
                kwargs = dict(kwargs, output_size=int(repeats.sum()))
        known = not func._schema.is_mutable and name in _FINDING + ("_local_scalar_dense", "unique_consecutive")
        before = self._on_host(func, args, kwargs) if known else None
        if before is not None and name in _FINDING:
            self._device.next_count(before.shape[0])
        if name in _WITH_MASKS and (name == "index" or args[2].numel() > 1):  # One value is filled in without a count.
            self._announce_masks(args[1])
        if name == "masked_scatter_backward":
            self._announce_selected(args[0], args[1])
        if before is not None and name == "_local_scalar_dense":
            func(*args, **kwargs)  # The copy to the host is work.
            return before
        result = func(*args, **kwargs)
        self._keep(func, args, kwargs, result, before)
        return result

    def _lifted(self, result: torch.Tensor) -> torch.Tensor:
        """A tensor made of numbers: the stand-in remembers what was just uploaded."""
        if result.is_cuda and result.numel() <= _MOST_REAL:
            with torch.no_grad():
                self.tell(result, torch.ops.aten._to_copy.default(result, device="cpu"))
        return result

    def _announce_masks(self, indices: Any) -> None:
        for mask in indices:
            copy = None if mask is None or mask.dtype not in (torch.bool, torch.uint8) else self.of(mask)
            if copy is not None:
                self._device.next_count(int(copy.count_nonzero()))

    def _announce_selected(self, tensor: torch.Tensor, mask: torch.Tensor) -> None:
        """The elements of `tensor` where the mask, which is repeated for it, is true."""
        copy = self.of(mask)
        if copy is not None and copy.numel():
            self._device.next_count(int(copy.count_nonzero()) * (tensor.numel() // copy.numel()))

    def _keep(self, func: Any, args: Any, kwargs: Dict[str, Any], result: Any, before: Any) -> None:
        """Gives the results their values."""
        if func._schema.is_mutable:
            self._write(func, args, kwargs, result)
            return
        made = _tensors(result)
        if not made or any(not _is_small(one) for one in made):
            return
        values = before if before is not None else self._on_host(func, args, kwargs)
        if values is None:
            return
        for one, value in zip(made, _tensors(values)):
            if not one.is_cuda:
                one.copy_(value)
            elif one.shape != value.shape and one.dim() == 1:  # unique_consecutive: as many as there are.
                self.tell(one.resize_(value.shape), value)
            elif one.shape == value.shape:
                self.tell(one, value)

    def _write(self, func: Any, args: Any, kwargs: Dict[str, Any], result: Any) -> None:
        written = args[0] if args and isinstance(args[0], torch.Tensor) else None
        copy = None if written is None else self.of(written)
        if written is not None and not written.is_cuda:  # A copy to the host.
            source = self.of(args[1]) if func._schema.name == "aten::copy_" and args[1].is_cuda else None
            if source is not None:
                written.copy_(source)
            return
        if copy is None:
            return
        if self._on_host(func, args, kwargs) is None:
            self._wrong[copy.untyped_storage()._cdata] = copy
        for one in _tensors(result):
            if getattr(one, "_headroom_host", None) is None and one.shape == copy.shape:
                self.tell(one, copy)

    def _on_host(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        def given(value: Any) -> Any:
            if isinstance(value, torch.device):
                return torch.device("cpu")
            if not isinstance(value, torch.Tensor):
                return value
            if value.is_cuda:
                value = self.of(value)
            if value is None or not _is_small(value):
                raise _Unknown
            return value

        try:
            there = tree_map(given, (args, {key: value for key, value in kwargs.items() if key != "pin_memory"}))
            with torch.no_grad():
                return func(*there[0], **there[1])
        except (_Unknown, RuntimeError, IndexError, NotImplementedError):
            return None


def _tensors(value: Any) -> List[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for part in value for one in _tensors(part)] if isinstance(value, (list, tuple)) else []


def _is_small(tensor: torch.Tensor) -> bool:
    real = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return tensor.numel() <= (_MOST_REAL if real else _MOST)


class WithHostValues(TorchDispatchMode):
    """Runs programs that are not recorded with known values."""

    def __init__(self, values: HostValues):
        super().__init__()
        self._values = values

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._values.call(func, args, kwargs or {})
