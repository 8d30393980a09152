"""Small tensors whose values follow from the stated routing. The stand-in hands them to whoever reads them."""

import array
import functools
import itertools
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import frames
from .routing import EXPERTS, PICKED, caller, from_owner, is_compiling, place, tokens_of

_MOST = 4096  # Elements: more than a layer has experts.
# Methods of a tensor that read its values, or copy them to where they are read.
_READERS = ("tolist", "item", "cpu", "numpy", "to", "clone", "__bool__", "__int__", "__float__", "__index__")


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
        self._torch = torch
        self._device = session.device
        # Values by address: the tensor, its version when the values were told, and what makes the stand-in forget them.
        self._told: Dict[int, Tuple[Any, Optional[int], Any]] = {}
        self._watching = False
        self._codes = {torch.int64: "q", torch.int32: "i", torch.float32: "f", torch.float64: "d"}

    def tell(self, tensor: Any, numbers: List[int]) -> bool:
        """`tensor` holds `numbers`. False: it cannot be said of this tensor."""
        code = self._codes.get(tensor.dtype)
        if code is None or not tensor.is_cuda or not tensor.is_contiguous() or tensor.numel() != len(numbers) or not numbers:
            return False
        values = array.array(code, numbers)
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
        """Wraps the methods that read values: what was written to in place is forgotten before it is read.
        They stay as they are until something is known, because Dynamo of PyTorch 2.8 breaks the graph at a wrapped `to`
        where functorch is traced, as in the masks of transformers."""
        if self._watching:
            return
        self._watching = True
        for name in _READERS:
            if (original := getattr(self._torch.Tensor, name, None)) is not None:
                setattr(self._torch.Tensor, name, self._reading(original))

    def _reading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        compiling = is_compiling(self._torch)
        told, forget_written = self._told, self.forget_written

        @functools.wraps(original)
        def read(*args: Any, **kwargs: Any) -> Any:
            if not compiling() and told:
                forget_written()
            return original(*args, **kwargs)

        return read

    def forget_written(self) -> None:
        """Forgets the values of every tensor that was written to since they were told."""
        for address, (reference, version, forget) in list(self._told.items()):
            tensor = reference()
            if tensor is None or _version_of(tensor) != version:
                forget()  # Does nothing if the tensor's end has done it.
                self._told.pop(address, None)

    def of(self, tensor: Any) -> Optional[List[int]]:
        """The known values of `tensor`, or None."""
        code = self._codes.get(tensor.dtype)
        if code is None or not tensor.is_cuda or not tensor.is_contiguous() or not 0 < tensor.numel() <= _MOST:
            return None
        self.forget_written()
        values = array.array(code, bytes(array.array(code).itemsize * tensor.numel()))
        return list(values) if self._device.known_values(tensor.data_ptr(), values) else None

    def tell_places(self, condition: Any, found: Any, count: int) -> None:
        """`found`, the one result of a search in `condition`, has every place of it if that is how many were found."""
        elements = condition.numel()
        if count != elements or elements * condition.dim() > _MOST:
            return
        places = itertools.product(*(range(size) for size in condition.shape))
        self.tell(found, list(itertools.chain.from_iterable(places)))


class KnownSums:
    """bincount, histc and sums over a routing: the tokens of each expert, as the stated routing has them."""

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
            owner.sum = self._counting(owner.sum, self._assignments)

    def _counting(self, original: Callable[..., Any], assignments: Callable[..., int]) -> Callable[..., Any]:
        compiling = is_compiling(self._torch)
        plain = self._plain

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if compiling() or not args:
                return result
            if type(result) in plain and result.dim() == 1 and result.is_cuda and 1 < result.numel() <= _MOST:
                self._tell(result, args, kwargs, assignments)
            return result

        return counted

    def _tell(self, result: Any, args: Any, kwargs: Any, assignments: Callable[..., int]) -> None:
        if result.requires_grad:
            return
        try:
            source = args[0]
            summed = self._sum_of_known(source, args[1:], kwargs, result)
            if summed is not None:
                self._known.tell(result, summed)
                return
            frame = caller()
            experts = _experts_of(frame)
            if experts != result.numel() or source.dtype.is_floating_point:
                return
            routing = self._session.settings.routing
            tokens = assignments(source, experts, frame)
            if tokens and self._known.tell(result, [tokens_of(i, experts, tokens, routing) for i in range(experts)]):
                self._session.guess(f"The tokens of each expert were counted by the routing `{routing}`", place(frame))
        except Exception as error:
            self._session.report_failure("tokens of experts", error)

    def _sum_of_known(self, source: Any, args: Any, kwargs: Any, result: Any) -> Optional[List[int]]:
        """The sums over one dimension of a matrix that is known (tokens by rank and expert)."""
        dim = kwargs.get("dim", kwargs.get("axis", args[0] if args else None))
        dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
        numbers = self._known.of(source) if source.dim() == 2 and isinstance(dim, int) else None
        if numbers is None:
            return None
        rows, columns = source.shape
        if dim % 2:
            return [sum(numbers[row * columns : (row + 1) * columns]) for row in range(rows)]
        return [sum(numbers[column::columns]) for column in range(columns)]

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


def _experts_of(frame: Any) -> Optional[int]:
    """The number of experts of the layer that is called, if it is one of experts."""
    if frame is None:
        return None
    owner = frames.local_variables(frame).get("self")
    own = any(hasattr(owner, name) for name in EXPERTS) or hasattr(owner, "experts")
    return from_owner(frame, EXPERTS) if own else None
