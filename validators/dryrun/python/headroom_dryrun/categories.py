"""Which blocks hold parameters, gradients and optimizer states.

Addresses are used again, so an address alone says nothing. A block belongs to a category if a tensor of it was seen
at the block's address while the block was alive.
"""

import bisect
import collections
import gc
import weakref
from typing import Any, Dict, Iterable, List, Tuple

from .history import Block


# DistributedDataParallel makes its buckets in these functions of this file, which call its reducer.
_BUCKETS_FILE = "/torch/nn/parallel/distributed.py"
_BUCKETS_MADE_BY = ("_ddp_init_helper", "_pre_forward")


def _is_bucket(block: Block) -> bool:
    frame = block.frames[0] if block.frames else {"filename": "", "name": ""}
    return frame["filename"].endswith(_BUCKETS_FILE) and frame["name"] in _BUCKETS_MADE_BY


def _local(tensor: Any) -> Any:
    """The tensor that holds this rank's data (DTensor keeps it in `_local_tensor`)."""
    return getattr(tensor, "_local_tensor", tensor)


def _address(tensor: Any) -> int:
    """Where the storage begins; 0 for a tensor that is not on a GPU."""
    tensor = _local(tensor)
    if not getattr(tensor, "is_cuda", False):
        return 0
    return tensor.untyped_storage().data_ptr()


class Categories:
    """Sightings of tensors: address -> (microseconds, category), in the order of time."""

    def __init__(self, keeps_all: bool = False) -> None:
        """`keeps_all`: of many sightings at one address, those between the first and the last are kept as well."""
        self._keeps_all = keeps_all
        self._seen: Dict[int, List[Tuple[int, str]]] = collections.defaultdict(list)
        self._has_model = False
        self._buckets_hold_gradients = False
        self._optimizers: Any = weakref.WeakSet()

    def see(self, tensors: Iterable[Any], category: str, time: int) -> None:
        """Notes where `tensors` are. Two sightings of one kind are kept per address: the first and the last."""
        for tensor in tensors:
            try:
                address = _address(tensor)
            except Exception:  # A tensor without storage (meta, freed shards, subclasses).
                continue
            if not address:
                continue
            seen = self._seen[address]
            if not self._keeps_all and len(seen) > 1 and seen[-1][1] == category and seen[-2][1] == category:
                seen[-1] = (time, category)
            else:
                seen.append((time, category))

    def of(self, block: Block, phase: str = "") -> str:
        """The category of `block`; what nobody has seen is an activation if a forward or backward pass was running."""
        seen = self._seen.get(block.address, [])
        index = bisect.bisect_left(seen, (block.born, ""))
        if index < len(seen) and (block.freed is None or seen[index][0] <= block.freed):
            return seen[index][1]
        if self._buckets_hold_gradients and _is_bucket(block):
            return "gradients"  # No backward pass has made views of it yet.
        return "activations" if phase in ("forward", "backward") else "other"

    def see_modules(self, parameter: type, time: int) -> None:
        """Notes every parameter that Python knows: for an error that comes before the first forward."""
        found = [thing for thing in gc.get_objects() if isinstance(thing, parameter)]
        self.see((p.grad for p in found if p.grad is not None), "gradients", time)
        self.see(found, "parameters", time)
        for optimizer in list(self._optimizers):  # An optimizer makes its states in its first step.
            self._see_states(optimizer, time)

    def see_model(self, module: Any, time: int) -> None:
        """Notes the parameters of the module that the program calls."""
        addresses = len(self._seen)
        self.see(module.parameters(), "parameters", time)
        self._has_model = self._has_model or len(self._seen) > addresses
        self._buckets_hold_gradients |= bool(getattr(module, "gradient_as_bucket_view", False))

    def see_optimizer(self, optimizer: Any, time: int, states: bool) -> None:
        """Notes parameters and gradients of `optimizer`, and its states if `states`.

        A parameter that is no module's is a copy in another precision (DeepSpeed, Megatron-Core): a state."""
        self._optimizers.add(optimizer)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.see((p.grad for p in parameters if getattr(p, "grad", None) is not None), "gradients", time)
        copies = [p for p in parameters if self._has_model and not self._is_parameter(p)]
        copied = set(map(id, copies))
        self.see(copies, "optimizer states", time)
        self.see((p for p in parameters if id(p) not in copied), "parameters", time)
        if states:
            self._see_states(optimizer, time)

    def _see_states(self, optimizer: Any, time: int) -> None:
        values = (v for state in optimizer.state.values() if isinstance(state, dict) for v in state.values())
        self.see((v for v in values if hasattr(v, "untyped_storage")), "optimizer states", time)

    def _is_parameter(self, tensor: Any) -> bool:
        try:
            seen = self._seen.get(_address(tensor), ())
        except Exception:
            return True
        return any(category == "parameters" for _, category in seen)
