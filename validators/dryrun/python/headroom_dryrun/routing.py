"""The stated routing: how many tokens each expert gets, and where a program says how many experts it has."""

import sys
from typing import Any, Callable, Optional, Tuple

from . import frames

EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "n_experts", "moe_num_experts")
EVERYWHERE = ("num_moe_experts",)  # Experts of all ranks, where a layer also names those of its own (Megatron-Core)
PICKED = ("num_experts_per_tok", "top_k", "moe_top_k", "n_activated_experts", "num_selected_experts", "moe_router_topk")


def skew(routing: str) -> float:
    """The share of all tokens that one expert takes beyond the others: `uniform` is 0, `skewed:0.3` is 0.3."""
    kind, _, share = routing.partition(":")
    if kind != "skewed":
        return 0.0
    return min(max(float(share or "0"), 0.0), 1.0)


def tokens_of(expert: int, experts: int, tokens: int, routing: str, most: Optional[int] = None) -> int:
    """The number of `tokens` that the router sends to `expert`; over all experts they sum to `tokens`.

    A token that chooses several experts counts for each of them; `most` is how many tokens there are."""
    share = skew(routing)
    favoured = int(tokens * share) if experts > 1 else 0
    if most is not None and experts > 1:
        favoured = max(0, min(favoured, (most * experts - tokens) // (experts - 1)))
    rest = tokens - favoured
    count = rest // experts + (1 if expert < rest % experts else 0)
    return count + (favoured if expert == 0 else 0)


def caller() -> Any:
    """The frame of the program that called the wrapped function."""
    frame = sys._getframe(1)
    while frame is not None and frames.is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def place(frame: Any) -> str:
    return f"{frames.short(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def from_owner(frame: Any, names: Tuple[str, ...]) -> Optional[int]:
    """An integer attribute of the `self` of `frame`, or of its config."""
    owner = frames.local_variables(frame).get("self")
    for holder in (owner, getattr(owner, "config", None)):
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def is_compiling(torch: Any) -> Callable[[], bool]:
    compiler = getattr(torch, "compiler", None)
    return compiler.is_compiling if hasattr(compiler, "is_compiling") else lambda: False
