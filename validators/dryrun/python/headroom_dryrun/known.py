"""Small tensors whose values follow from the stated routing. The stand-in hands them to whoever reads them."""

import array
import functools
import itertools
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import frames
from .routing import EVERYWHERE, EXPERTS, PICKED, caller, from_owner, is_compiling, place, tokens_of

_MOST = 4096  # Elements: more than a layer has experts.
_WIDEST = 1 << 17  # Elements from the first to the last of a view: counts that many ranks sent each other.
# Methods of a tensor that read its values, or copy them to where they are read.
_READERS = ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__")
# Methods whose result has the numbers of the tensor in the same order, perhaps of another type or on the host.
_MOVERS = ("contiguous", "long", "int", "to", "clone")


def _version_of(tensor: Any) -> Optional[int]:
    """The number of writes to the tensor or a view of it; None in inference mode, where PyTorch does not count them."""
    try:
        return tensor._version
    except RuntimeError:
        return None


class Known:
    """Tells the stand-in what a kernel has written, for as long as the tensor lives and nothing else is written to it."""

    def __init__(self, session: Any):
        torch = session.torch
        self._session = session
        self._torch = torch
        self._device = session.device
        # Values by address: the tensor, its version when the values were told, and what makes the stand-in forget them.
        self._told: Dict[int, Tuple[Any, Optional[int], Any]] = {}
        self._watching = False
        self._routed: Dict[Tuple[int, ...], int] = {}  # Assignments of the last routing of a shape
        self._codes = {torch.int64: "q", torch.int32: "i", torch.float32: "f", torch.float64: "d"}

    def tell(self, tensor: Any, numbers: List[int]) -> bool:
        """`tensor` holds `numbers`. False: it cannot be said of this tensor."""
        code = self._codes.get(tensor.dtype)
        if code is None or not tensor.is_cuda or not tensor.is_contiguous() or tensor.numel() != len(numbers) or not numbers:
            return False
        values = array.array(code, map(int if code in "qi" else float, numbers))
        address = tensor.data_ptr()
        if not self._device.state_values(address, values):
            return False
        # The storage may outlive the tensor in views that keep no base; they then read as before.
        forget = weakref.finalize(tensor, self._device.forget_values, address, len(values) * values.itemsize)
        forget.atexit = False
        before = self._told.get(address)
        if before is not None:
            before[2].detach()
        self._told[address] = weakref.ref(tensor), _version_of(tensor), forget
        self._watch_readers()
        return True

    def _watch_readers(self) -> None:
        """Wraps the methods that read values, so that what was written to in place is forgotten first, and those that move them.
        They stay as they are until something is known, because Dynamo of PyTorch 2.8 breaks the graph at a wrapped `to`
        where functorch is traced, as in the masks of transformers."""
        if self._watching:
            return
        self._watching = True
        for names, wrapped in ((_READERS, self._reading), (_MOVERS, self._moving)):
            for name in names:
                if (original := getattr(self._torch.Tensor, name, None)) is not None:
                    setattr(self._torch.Tensor, name, wrapped(original))

    def _reading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        compiling = is_compiling(self._torch)
        told, forget_written = self._told, self.forget_written

        @functools.wraps(original)
        def read(*args: Any, **kwargs: Any) -> Any:
            if not compiling() and told:
                forget_written()
            return original(*args, **kwargs)

        return read

    def _moving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        compiling, plain = is_compiling(self._torch), self._torch.Tensor
        told, forget_written, find, tell = self._told, self.forget_written, self._of_safely, self._tell_safely

        @functools.wraps(original)
        def move(self: Any, *args: Any, **kwargs: Any) -> Any:
            numbers = None
            if not compiling():
                if told:
                    forget_written()
                if type(self) is plain:
                    numbers = find(self)  # Before a kernel runs.
            result = original(self, *args, **kwargs)
            if numbers is not None and type(result) is plain and result.is_cuda and result.data_ptr() != self.data_ptr():
                tell(result, numbers)
            return result

        return move

    def _of_safely(self, tensor: Any) -> Optional[List[int]]:
        try:
            return self.of(tensor)
        except Exception as error:
            self._session.report_failure("known values", error)
            return None

    def _tell_safely(self, tensor: Any, numbers: List[int]) -> None:
        try:
            self.tell(tensor, numbers)
        except Exception as error:
            self._session.report_failure("known values", error)

    def note_routing(self, shape: Tuple[int, ...], assignments: int) -> None:
        """A map of tokens to experts of this shape has so many assignments."""
        self._routed[tuple(shape)] = assignments

    def routed(self, shape: Tuple[int, ...]) -> Optional[int]:
        """The assignments of the last routing of this shape or its transposed; None: there was none."""
        found = self._routed.get(tuple(shape))
        return self._routed.get(tuple(reversed(shape))) if found is None else found

    def is_counting(self) -> bool:
        """Whether anything was told: only then are the results of other kernels followed."""
        return self._watching

    def forget_written(self) -> None:
        """Forgets the values of every tensor that was written to since they were told."""
        for address, (reference, version, forget) in list(self._told.items()):
            tensor = reference()
            if tensor is None or _version_of(tensor) != version:
                forget()  # Does nothing if the tensor's end has done it.
                self._told.pop(address, None)

    def of(self, tensor: Any) -> Optional[List[int]]:
        """The known values of `tensor` in the order of its elements, or None."""
        code = self._codes.get(tensor.dtype)
        if code is None or not tensor.is_cuda or not 0 < tensor.numel() <= _WIDEST or not self._is_dense(tensor):
            return None
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        span = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
        if span > _WIDEST:
            return None
        self.forget_written()
        values = array.array(code, bytes(array.array(code).itemsize * span))
        if not self._device.known_values(tensor.data_ptr(), values):
            return None
        places = itertools.product(*(range(size) for size in shape))
        return [values[sum(at * stride for at, stride in zip(place, strides))] for place in places]

    def _is_dense(self, tensor: Any) -> bool:
        """Whether the tensor has strides and an address: neither sparse nor wrapped by functorch."""
        wraps = getattr(getattr(self._torch, "_C", None), "_functorch", None)
        is_wrapped = getattr(wraps, "is_functorch_wrapped_tensor", lambda one: False)
        return getattr(tensor, "layout", None) is getattr(self._torch, "strided", None) and not is_wrapped(tensor)

    def tell_places(self, condition: Any, found: Any, count: int) -> None:
        """`found`, the one result of a search in `condition`, has every place of it if that is how many were found."""
        elements = condition.numel()
        if count != elements or elements * condition.dim() > _MOST:
            return
        places = itertools.product(*(range(size) for size in condition.shape))
        self.tell(found, list(itertools.chain.from_iterable(places)))


def sums_over(numbers: List[int], shape: Tuple[int, ...], dims: Tuple[int, ...]) -> List[int]:
    """The sums of an array of `shape` over `dims`, all of them if there are none, in the order of what is left."""
    summed = {dim % len(shape) for dim in dims} if dims else set(range(len(shape)))
    found: Dict[Tuple[int, ...], int] = {}
    for place, number in zip(itertools.product(*(range(size) for size in shape)), numbers):
        left = tuple(at for dim, at in enumerate(place) if dim not in summed)
        found[left] = found.get(left, 0) + number
    return list(found.values())


def dims_of(args: Any, kwargs: Any) -> Optional[Tuple[int, ...]]:
    """The dimensions that a reduction is told; empty: it is told none. None: something else is in their place."""
    stated = kwargs.get("dim", kwargs.get("axis", args[0] if args else ()))
    stated = stated if isinstance(stated, (tuple, list)) else (() if stated is None else (stated,))
    return tuple(stated) if all(type(dim) is int for dim in stated) else None


class KnownSums:
    """bincount, histc and sums over a routing: the tokens of each expert, as the stated routing has them. Sums of what is
    known are known, too."""

    def __init__(self, session: Any, known: Known):
        self._session = session
        self._torch = session.torch
        self._known = known
        self._plain = (session.torch.Tensor, session.torch.nn.Parameter)

    def install(self) -> None:
        """Wraps the functions whose results programs take as sizes."""
        torch = self._torch
        for owner in (torch, torch.Tensor):
            owner.bincount = self._counting(owner.bincount, lambda chosen, experts, frame: chosen.numel())
            owner.histc = self._counting(owner.histc, lambda chosen, experts, frame: chosen.numel())
            owner.sum = self._counting(owner.sum, self._assignments, sums_over)

    def _counting(self, original: Callable[..., Any], assignments: Callable[..., int], sums: Any = None) -> Callable[..., Any]:
        """`original`, which counts the tokens of experts (`assignments`) or adds known numbers (`sums`)."""
        compiling = is_compiling(self._torch)
        plain = self._plain

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            follows = bool(args) and not compiling() and type(args[0]) in plain
            added = self._added(args, kwargs, sums) if follows and sums else None  # Before a kernel runs.
            result = original(*args, **kwargs)
            if follows and type(result) in plain and result.is_cuda and not result.requires_grad:
                self._tell(result, args[0], added, assignments)
            return result

        return counted

    def _tell(self, result: Any, source: Any, added: Optional[List[int]], assignments: Callable[..., int]) -> None:
        try:
            if added is not None:
                self._known.tell(result, added)
            if added is not None or result.dim() != 1 or not 0 < result.numel() <= _MOST:
                return
            frame = caller()
            experts = _experts_of(frame)
            if experts != result.numel() or source.dtype.is_floating_point:
                return
            routing = self._session.settings.routing
            tokens = assignments(source, experts, frame)
            first, everywhere = _share_of(frame, experts)
            is_map = source.dim() == 2 and assignments == self._assignments  # Of tokens to experts.
            most = source.numel() // experts if is_map else None
            counts = [tokens_of(first + i, everywhere, tokens, routing, most) for i in range(experts)]
            if not tokens or not self._known.tell(result, counts):
                return
            if is_map:
                self._known.note_routing(source.shape, sum(counts))
            self._session.guess(f"The tokens of each expert were counted by the routing `{routing}`", place(frame))
        except Exception as error:
            self._session.report_failure("tokens of experts", error)

    def _added(self, args: Any, kwargs: Any, sums: Callable[..., List[int]]) -> Optional[List[int]]:
        """The sums of numbers that are known (tokens by rank and expert)."""
        source, dims = args[0], dims_of(args[1:], kwargs)
        if dims is None or not self._known.is_counting() or not 0 < source.dim():
            return None
        try:
            numbers = self._known.of(source)
            return None if numbers is None else sums(numbers, tuple(source.shape), dims)
        except Exception as error:
            self._session.report_failure("sums of known numbers", error)
            return None

    def _assignments(self, source: Any, experts: int, frame: Any) -> int:
        """Tokens times experts per token of a one-hot routing that was summed over all dimensions but the experts'; 0: it is none."""
        if source.dim() < 2 or experts not in (source.shape[0], source.shape[-1]):
            return 0
        rows = source.numel() // experts
        picked = from_owner(frame, PICKED) or 1
        if source.dim() > 2 and picked in source.shape:
            return rows  # A dimension of its own for the choices of a token.
        flat = any(
            type(value) in self._plain and value.dim() == 1 and value.numel() == rows and value.dtype in (self._torch.int64, self._torch.int32)
            for value in frames.local_variables(frame).values()
        )
        return rows if flat else rows * picked


def _share_of(frame: Any, experts: int) -> Tuple[int, int]:
    """The first of the `experts` that are counted, and how many there are on all ranks."""
    everywhere = from_owner(frame, EVERYWHERE) or experts
    indices = getattr(frames.local_variables(frame).get("self"), "local_expert_indices", None)
    own = everywhere > experts and isinstance(indices, (list, tuple)) and len(indices) == experts
    return (indices[0], everywhere) if own else (0, experts)


def _experts_of(frame: Any) -> Optional[int]:
    """The number of experts of the layer that is called, if it is one of experts."""
    if frame is None:
        return None
    owner = frames.local_variables(frame).get("self")
    own = any(hasattr(owner, name) for name in EXPERTS) or hasattr(owner, "experts")
    return from_owner(frame, EXPERTS) if own else None
