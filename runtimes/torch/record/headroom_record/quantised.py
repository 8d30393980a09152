"""Linear layers of bitsandbytes, as far as the code around them sees them."""

import contextlib
from typing import Any, Iterator, Optional

import torch
from torch import nn

COMPUTE = torch.bfloat16  # bnb_4bit_compute_dtype of the configurations that people use.


def _head_of(model: nn.Module) -> Optional[nn.Module]:
    """The output layer, which transformers does not quantise."""
    find = getattr(model, "get_output_embeddings", None)
    return find() if find is not None else None


def prepare(model: nn.Module) -> None:
    """prepare_model_for_kbit_training: parameters that are not quantised become fp32."""
    head = _head_of(model)
    quantised = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear) and module is not head}
    for parameter in model.parameters():
        if id(parameter) not in quantised and parameter.dtype in (torch.bfloat16, torch.float16):
            parameter.data = parameter.data.to(torch.float32)


@contextlib.contextmanager
def layers_keep_types(model: nn.Module) -> Iterator[None]:
    """Linear layers compute in bf16 and return the type of their input, also under autocast.
    Source: bitsandbytes 0.50.2 bitsandbytes/nn/modules.py, Linear4bit.forward; Linear8bitLt does the same."""
    head, original = _head_of(model), nn.Linear.forward

    def forward(self: nn.Linear, given: torch.Tensor) -> torch.Tensor:
        if self is head:
            return original(self, given)
        bias = None if self.bias is None else self.bias.to(COMPUTE)
        return nn.functional.linear(given.to(COMPUTE), self.weight.to(COMPUTE), bias).to(given.dtype)

    nn.Linear.forward = forward
    try:
        yield
    finally:
        nn.Linear.forward = original


def around(model: Any, linears: Optional[str]) -> Any:
    """What a pass runs in: `linears` is None for the model's own layers."""
    return contextlib.nullcontext() if linears is None else layers_keep_types(model)
