"""The precisions in which a model is recorded, unless its user names others."""

from typing import List


def usual_modes(attention: str, qlora: bool, liger: bool = False) -> List[str]:
    """Modes of `recording.Mode`. The last one is that of a plain model: the lists of parameters and buffers are its."""
    quantised = [f"bf16/bf16/{attention}/quantised", f"bf16//{attention}/prepared", f"bf16/bf16/{attention}/prepared"]
    fused = [f"bf16//{attention}/liger", f"fp32/bf16/{attention}/liger"]
    return [f"bf16//{attention}"] + (quantised if qlora else []) + (fused if liger else []) + [f"fp32/bf16/{attention}"]
