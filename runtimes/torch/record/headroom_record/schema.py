"""What is taken from the arguments of an ATen operator: its tensors, and the numbers that decide its work."""

from typing import Any, Dict, List, Optional, Tuple

import torch

DTYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8_e4m3",
    torch.float8_e5m2: "fp8_e5m2",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.uint64: "uint64",
    torch.uint32: "uint32",
    torch.bool: "bool",
    torch.complex64: "complex64",
}

# Arguments that decide how much an operator works or allocates, and that its shapes do not tell.
_SCALARS = ("dim", "dims", "keepdim", "dropout_p", "is_causal", "p", "groups", "stride", "padding", "dilation",
            "transposed", "accumulate", "axis", "descending", "sorted", "largest")
_OF_ONE_OPERATOR = {"pow": ("exponent",)}
_WITH_PADDING = ("convolution", "convolution_backward", "max_pool", "avg_pool", "unfold", "im2col", "col2im")


class Operator:
    """The positions of an operator's tensors and scalars among its arguments."""

    __slots__ = ("name", "tensors", "scalars")

    def __init__(self, func: Any):
        schema = func._schema
        namespace, _, base = schema.name.partition("::")
        self.name = base if namespace == "aten" else f"{namespace}::{base}"
        self.tensors: List[Tuple[int, str]] = []
        self.scalars: List[Tuple[int, str, Any]] = []
        spatial = any(base.startswith(one) for one in _WITH_PADDING)
        for position, argument in enumerate(schema.arguments):
            if "Tensor" in str(argument.type):
                self.tensors.append((position, argument.name))
            elif argument.name in _OF_ONE_OPERATOR.get(base, ()):
                self.scalars.append((position, argument.name, None))
            elif argument.name in _SCALARS and (spatial or argument.name not in ("stride", "padding", "dilation")):
                if base not in ("empty_strided", "as_strided", "new_empty_strided", "as_strided_", "select",
                                "squeeze", "unsqueeze", "slice", "transpose", "permute", "split", "unbind"):
                    default = argument.default_value if argument.has_default_value() else None
                    self.scalars.append((position, argument.name, default))

    def inputs(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> List[Optional[torch.Tensor]]:
        """The tensors in the order of the schema; None where an argument is no tensor on the device."""
        found: List[Optional[torch.Tensor]] = []
        count = len(args)
        for position, name in self.tensors:
            value = args[position] if position < count else kwargs.get(name)
            if isinstance(value, torch.Tensor):
                found.append(value if value.is_cuda else None)
            elif isinstance(value, (list, tuple)):
                found.extend(one if isinstance(one, torch.Tensor) and one.is_cuda else None for one in value)
            else:
                found.append(None)
        return found

    def numbers(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Dict[str, Any]:
        found: Dict[str, Any] = {}
        count = len(args)
        for position, name, default in self.scalars:
            value = args[position] if position < count else kwargs.get(name, default)
            if isinstance(value, (bool, int, float)):
                found[name] = value
            elif isinstance(value, (list, tuple)) and all(isinstance(one, (bool, int)) for one in value):
                found[name] = list(value)
        if self.name == "clone" and _is_copied_as_it_lies(args[0], kwargs.get("memory_format")):
            found["as_it_lies"] = True
        return found


def _is_copied_as_it_lies(tensor: torch.Tensor, order: Optional[torch.memory_format]) -> bool:
    """Whether a copy keeps the order of the elements: a copy engine does it, and no kernel."""
    if order in (None, torch.preserve_format):
        return bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))
    return tensor.is_contiguous(memory_format=order)


def flat_tensors(value: Any) -> List[torch.Tensor]:
    """The tensors on the device that an operator returned, in order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_cuda else []
    if isinstance(value, (list, tuple)):
        return [one for part in value for one in flat_tensors(part)]
    return []


def geometry(tensor: torch.Tensor) -> Tuple[Any, ...]:
    """What tells the views of one storage apart."""
    return tuple(tensor.size()), tensor.stride(), tensor.storage_offset(), tensor.dtype
