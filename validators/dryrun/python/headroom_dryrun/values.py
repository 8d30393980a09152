"""Values that steer control flow: a GPU that computes nothing has none, so the usual ones are made up and listed."""

import functools
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import frames

_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "n_experts", "moe_num_experts")
_PICKED = ("num_experts_per_tok", "top_k", "moe_top_k", "n_activated_experts", "num_selected_experts")
_OURS = __file__.rsplit("/", 1)[0]


def skew(routing: str) -> float:
    """The share of all tokens that one expert takes beyond the others: `uniform` is 0, `skewed:0.3` is 0.3."""
    kind, _, share = routing.partition(":")
    if kind != "skewed":
        return 0.0
    return min(max(float(share or "0"), 0.0), 1.0)


def tokens_of(expert: int, experts: int, tokens: int, routing: str) -> int:
    """How many of `tokens` the router sends to `expert`; over all experts they sum to `tokens`."""
    share = skew(routing)
    favoured = int(tokens * share) if experts > 1 else 0
    rest = tokens - favoured
    count = rest // experts + (1 if expert < rest % experts else 0)
    return count + (favoured if expert == 0 else 0)


def caller(skip_torch: bool = True) -> Any:
    """The frame of the program that called the wrapped function."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_OURS) and not (skip_torch and frames.is_library(name)):
            return frame
        frame = frame.f_back
    return None


def _place(frame: Any) -> str:
    return f"{frames.short(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def _from_owner(frame: Any, names: Tuple[str, ...]) -> Optional[int]:
    """An integer attribute of the `self` of `frame`, or of its config."""
    owner = frame.f_locals.get("self") if frame is not None else None
    for holder in (owner, getattr(owner, "config", None)):
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


class Guards:
    """`if mask.all():` takes its usual branch: such guards ask for the ordinary case (no padding, no packing)."""

    def __init__(self, session: Any):
        self._session = session
        self._torch = session.torch

    def install(self) -> None:
        """Wraps `all` and the truth of its result. The result keeps a mark of its own: its lifetime is unchanged."""
        tensor = self._torch.Tensor
        tensor.all = self._marking(tensor.all)
        self._torch.all = self._marking(self._torch.all)
        tensor.__bool__ = self._truth(tensor.__bool__)

    def _marking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        compiling = _is_compiling(self._torch)
        tensor = self._torch.Tensor

        @functools.wraps(original)
        def all_true(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not compiling() and isinstance(result, tensor) and result.is_cuda and result.numel() == 1:
                result._headroom_usual = True
            return result

        return all_true

    def _truth(self, original: Callable[[Any], bool]) -> Callable[[Any], bool]:
        compiling = _is_compiling(self._torch)
        session = self._session

        @functools.wraps(original)
        def truth(self: Any) -> bool:
            value = original(self)
            if value or compiling() or not getattr(self, "_headroom_usual", False):
                return value
            session.guess("A guard `.all()` was taken as true", _place(caller()))
            return True

        return truth


class Counts:
    """How many elements nonzero-like functions find: tokens of an expert by the stated routing, else all of them."""

    def __init__(self, session: Any):
        self._session = session
        self._torch = session.torch
        self._calls: Dict[Tuple[int, int], int] = {}

    def install(self) -> None:
        """Wraps nonzero and where with one argument."""
        torch = self._torch
        torch.Tensor.nonzero = self._counted(torch.Tensor.nonzero)
        torch.nonzero = self._counted(torch.nonzero)
        torch.argwhere = self._counted(torch.argwhere)
        torch.where = self._counted(torch.where, only_condition=True)

    def _counted(self, original: Callable[..., Any], only_condition: bool = False) -> Callable[..., Any]:
        compiling = _is_compiling(self._torch)

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if not compiling() and args and getattr(args[0], "is_cuda", False):
                if not only_condition or (len(args) == 1 and not kwargs):
                    self._announce(args[0])
            return original(*args, **kwargs)

        return counted

    def _announce(self, condition: Any) -> None:
        frame = caller()
        count, what = self._count(condition, frame)
        told = self._session.device.announce_count(count)
        if not told:
            what = "nonzero found nothing: this stand-in cannot be told a count"
        self._session.guess(what, _place(frame))

    def _count(self, condition: Any, frame: Any) -> Tuple[int, str]:
        """The count that is announced, and the sentence that says so."""
        elements = condition.numel()
        experts = _from_owner(frame, _EXPERTS)
        if experts is None or elements <= experts:
            return elements, "nonzero was taken to find every element"
        where = (id(frame.f_locals.get("self")), frame.f_lineno)
        expert = self._calls.get(where, 0)
        self._calls[where] = (expert + 1) % experts
        count = tokens_of(expert, experts, self._assignments(condition, frame, experts), self._session.settings.routing)
        return min(count, elements), f"Tokens of an expert were taken from the routing `{self._session.settings.routing}`"

    def _assignments(self, condition: Any, frame: Any, experts: int) -> int:
        """Tokens times experts per token. A mask of one expert has that many elements, or one per token."""
        picked = _from_owner(frame, _PICKED)
        elements = condition.numel()
        if condition.dim() == 1 and picked:
            return elements * picked
        return elements


def _is_compiling(torch: Any) -> Callable[[], bool]:
    compiler = getattr(torch, "compiler", None)
    return compiler.is_compiling if hasattr(compiler, "is_compiling") else lambda: False


def install(session: Any) -> None:
    """Puts guards and counts in, if the GPU is the stand-in."""
    if not session.device.is_standin:
        return
    for part in (Guards(session), Counts(session)):
        try:
            part.install()
        except Exception as error:
            session.report_failure(type(part).__name__, error)
