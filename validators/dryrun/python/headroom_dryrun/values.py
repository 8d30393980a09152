"""Values that steer control flow: a GPU that computes nothing has none, so the usual ones are made up and listed."""

import ctypes
import functools
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import frames
from .known import Known, KnownSums
from .routing import EXPERTS, PICKED, caller, from_owner, is_compiling, place, tokens_of

_OURS = __file__.rsplit("/", 1)[0]
# CPython: tp_as_sequence in PyTypeObject and sq_item in PySequenceMethods (Include/cpython/object.h), in bytes;
# Py_sq_item (Include/typeslots.h).
_AS_SEQUENCE = object.__basicsize__ + 11 * ctypes.sizeof(ctypes.c_void_p)
_SQ_ITEM = 3 * ctypes.sizeof(ctypes.c_void_p)
_SLOT_SQ_ITEM = 44


def _is_printing() -> bool:
    """Whether PyTorch asks in order to write a tensor as text."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.endswith("_tensor_str.py")


class Guards:
    """`if mask.all():` takes its usual branch: such guards ask for the ordinary case (no padding, no packing). What a
    program asserts holds."""

    def __init__(self, session: Any):
        self._session = session
        self._torch = session.torch

    def install(self) -> None:
        """Wraps `all` and the truth of its result. The result keeps a mark of its own: its lifetime is unchanged."""
        tensor = self._torch.Tensor
        tensor.all = self.marking(tensor.all)
        self._torch.all = self.marking(self._torch.all)
        tensor.__bool__ = self._truth(tensor.__bool__)

    def marking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original`, which asks whether all elements are true: its result is marked."""
        compiling = is_compiling(self._torch)
        tensor = self._torch.Tensor

        @functools.wraps(original)
        def all_true(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not compiling() and isinstance(result, tensor) and result.is_cuda and result.numel() == 1:
                result._headroom_usual = True
            return result

        return all_true

    def _truth(self, original: Callable[[Any], bool]) -> Callable[[Any], bool]:
        compiling = is_compiling(self._torch)
        session = self._session

        @functools.wraps(original)
        def truth(self: Any) -> bool:
            value = original(self)
            if value or not self.is_cuda or compiling():
                return value
            if getattr(self, "_headroom_usual", False):
                session.guess("A guard `.all()` was taken as true", place(caller()))
                return True
            if frames.is_asserting(sys._getframe(1)):
                session.guess("What a program asserts was taken as true", place(caller()))
                return True
            return value

        return truth


class Counts:
    """How many elements nonzero-like functions find: tokens of an expert by the stated routing, else all of them."""

    def __init__(self, session: Any, known: Known):
        self._session = session
        self._torch = session.torch
        self._plain = (session.torch.Tensor, session.torch.nn.Parameter)
        self._calls: Dict[Tuple[int, int], int] = {}
        self._known = known

    def install(self) -> None:
        """Wraps nonzero, where with one argument, masked_select and indexing with a mask."""
        torch = self._torch
        tensor = torch.Tensor
        tensor.nonzero = self._counted(tensor.nonzero)
        tensor.argwhere = self._counted(tensor.argwhere)
        torch.nonzero = self._counted(torch.nonzero)
        torch.argwhere = self._counted(torch.argwhere)
        torch.where = self._counted(torch.where, arguments=1)
        tensor.masked_select = self._counted(tensor.masked_select, condition=1)
        torch.masked_select = self._counted(torch.masked_select, condition=1)
        tensor.__getitem__ = self._indexing(tensor.__getitem__)
        tensor.__setitem__ = self._indexing(tensor.__setitem__)
        _keep_from_sequences(tensor)

    def _counted(self, original: Callable[..., Any], condition: int = 0, arguments: int = 0) -> Callable[..., Any]:
        """`original`, whose condition is its argument number `condition`; `arguments`: only calls with so many."""
        compiling = is_compiling(self._torch)

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if len(args) > condition and (not arguments or len(args) == arguments and not kwargs) and not compiling():
                count = self._announce(args[condition])
                result = original(*args, **kwargs)
                if count and not condition:
                    self._tell_places(args[0], result, count)
                return result
            return original(*args, **kwargs)

        return counted

    def _tell_places(self, condition: Any, result: Any, count: int) -> None:
        try:
            found = result if isinstance(result, tuple) else (result,)  # A tuple has a flat tensor for each dimension.
            if len(found) == 1:
                self._known.tell_places(condition, found[0], count)
        except Exception as error:
            self._session.report_failure("values of nonzero", error)

    def _indexing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """x[mask] and x[mask] = y, which call nonzero in C++. A single value is filled in without a count."""
        compiling = is_compiling(self._torch)
        plain, boolean = self._plain, self._torch.bool

        @functools.wraps(original)
        def index(self: Any, key: Any, *value: Any) -> Any:
            if type(key) not in plain or key.dtype is not boolean or compiling():
                return original(self, key, *value)
            if not value:
                counts._announce(key)
            elif getattr(value[0], "ndim", 0) > self.dim() - key.dim():
                counts._announce(key, value[0].shape[0])  # What is written must fit.
            elif getattr(value[0], "ndim", 0) > 0:
                counts._announce(key)
            both = 2 if value and self.requires_grad else 1  # Gradients of what is written, and of what was there.
            result = original(self, key, *value)
            counts._again_in_backward(key, self if value else result, both)
            return result

        counts = self
        return index

    def _announce(self, condition: Any, known: Optional[int] = None) -> int:
        """Says how many elements of `condition` are found; returns that number, 0 where nothing was said."""
        if type(condition) not in self._plain or not condition.is_cuda or condition.numel() == 0 or _is_printing():
            return 0
        try:
            frame = caller()
            if known is not None:
                count, what = known, "A mask was taken to choose as many elements as are written"
            else:
                count, what = getattr(condition, "_headroom_count", None) or self._count(condition, frame)
            condition._headroom_count = count, what  # The same mask chooses the same elements again.
            if not self._session.device.announce_count(count):
                count, what = 0, "A search for nonzero elements found none: this stand-in cannot be told a count"
            self._session.guess(what, place(frame))
            return count
        except Exception as error:
            self._session.report_failure("nonzero", error)
            return 0

    def _again_in_backward(self, mask: Any, result: Any, times: int) -> None:
        """The backward pass of an indexing looks for the elements of the mask again, right after this hook."""
        known = getattr(mask, "_headroom_count", None)
        if known is None or not getattr(result, "requires_grad", False):
            return
        count, announce = known[0], self._session.device.announce_count

        def hook(gradient: Any) -> None:
            announce(count, times)

        result.register_hook(hook)

    def _count(self, condition: Any, frame: Any) -> Tuple[int, str]:
        """The count that is announced, and the sentence that says so."""
        elements = condition.numel()
        routed = self._known.routed(condition.shape) if condition.dim() == 2 else None
        if routed is not None:
            routing = self._session.settings.routing
            return routed, f"A map of tokens to experts was taken to have the tokens of the routing `{routing}`"
        experts = from_owner(frame, EXPERTS)
        if experts is None or elements <= experts:
            return elements, "A search for nonzero elements was taken to find all of them"
        if elements == experts + 1:
            return experts, "A search among the experts and a class for masked tokens was taken to find the experts"
        where = (id(frame.f_code), frame.f_lineno)
        expert = self._calls.get(where, 0)
        self._calls[where] = (expert + 1) % experts
        picked = from_owner(frame, PICKED) or 1
        tokens, assignments = self._tokens(condition, frame, picked)
        routing = self._session.settings.routing
        count = tokens_of(expert, experts, assignments, routing)
        return min(count, tokens), f"The tokens of an expert were counted by the routing `{routing}`"

    def _tokens(self, condition: Any, frame: Any, picked: int) -> Tuple[int, int]:
        """Tokens, and tokens times experts per token. A mask has an element for each of the second, or, if it is
        flat and no flat list of chosen experts is among the variables, for each token."""
        elements = condition.numel()
        if condition.dim() > 1:
            return max(1, elements // picked), elements
        for value in frames.local_variables(frame).values():
            if type(value) in self._plain and value.dim() == 1 and value.numel() == elements:
                if value.dtype in (self._torch.int64, self._torch.int32):
                    return max(1, elements // picked), elements
        return elements, elements * picked


def _keep_from_sequences(kind: type) -> None:
    """Tensors are no sequences for C++, but a `__getitem__` written in Python fills the slot that says so, and
    `torch.tensor` of a list of tensors without dimensions then asks each for its length. Empties that slot again."""
    slot = ctypes.pythonapi.PyType_GetSlot
    slot.argtypes, slot.restype = [ctypes.py_object, ctypes.c_int], ctypes.c_void_p
    for one in (kind, *kind.__subclasses__()):
        methods = ctypes.c_void_p.from_address(id(one) + _AS_SEQUENCE).value
        item = ctypes.c_void_p.from_address(methods + _SQ_ITEM) if methods else None
        if item is not None and item.value and item.value == slot(one, _SLOT_SQ_ITEM):
            item.value = None


# Functions of PyTorch's namespace that are wrapped here or in known.py.
_WRAPPED = ("all", "nonzero", "argwhere", "where", "masked_select", "bincount", "histc", "sum")


def _tell_torchscript(torch: Any, originals: Dict[str, Any]) -> None:
    """TorchScript knows PyTorch's operators by the identity of their functions; the wrapped ones are still they."""
    builtins = getattr(getattr(torch, "jit", None), "_builtins", None)
    if builtins is None:
        return
    for name, original in originals.items():
        operator = builtins._find_builtin(original)
        if operator is not None:
            builtins._register_builtin(getattr(torch, name), operator)


def _tell_autograd_cache(torch: Any, module: Any) -> None:
    """AOTAutograd's cache takes graphs whose functions it knows; a function of ours is as good as the one inside."""
    original = getattr(module, "check_node_safe", None)
    if original is None:
        return
    wrapped = [getattr(torch, name) for name in _WRAPPED if hasattr(torch, name)]

    @functools.wraps(original)
    def check_node_safe(node: Any) -> None:
        if node.op != "call_function" or not any(node.target is function for function in wrapped):
            original(node)

    module.check_node_safe = check_node_safe


def install(session: Any) -> None:
    """Puts guards and counts in, if the GPU is the stand-in."""
    if not session.device.is_standin:
        return
    known = Known(session)
    originals = {name: getattr(session.torch, name, None) for name in _WRAPPED}
    for part in (Guards(session), Counts(session, known), KnownSums(session, known)):
        try:
            part.install()
        except Exception as error:
            session.report_failure(type(part).__name__, error)
    _tell_torchscript(session.torch, originals)


def hooks(session: Any) -> Dict[str, List[Callable[[Any], None]]]:
    """Hooks by module: transformers 5 asks whether all elements of a mask are true with a function of its own, and
    compiled graphs may have functions of ours."""

    def masks_imported(module: Any) -> None:
        if session.device.is_standin and hasattr(module, "fast_all"):
            module.fast_all = Guards(session).marking(module.fast_all)

    def cache_imported(module: Any) -> None:
        if session.device.is_standin:
            _tell_autograd_cache(session.torch, module)

    return {
        "transformers.masking_utils": [masks_imported],
        "torch._functorch._aot_autograd.autograd_cache": [cache_imported],
    }
