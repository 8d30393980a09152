"""A world of N ranks in one process: the others do not exist, and what they would have said is answered at once."""

import functools
import os
import sys
import types
import threading
from typing import Any, Callable, Dict, List

from .settings import Settings

_ADDRESS = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
# ncclUniqueId is 128 bytes (nccl.h, NCCL_UNIQUE_ID_BYTES); it is what other ranks are asked for most.
_UNIQUE_ID = bytes(128)
# Keys with which ranks raise an alarm: no rank does (ProcessGroupNCCL.hpp, kStoreDumpKey and kStoreErrorSignalKey).
_ALARMS = ("exception_dump", "remote_error")


def rank_variables(settings: Settings) -> Dict[str, str]:
    """The variables that torchrun sets for the chosen rank."""
    if settings.world is None:
        return {}
    per_node = max(1, min(settings.per_node, settings.world))
    return {
        "RANK": str(settings.rank),
        "WORLD_SIZE": str(settings.world),
        "LOCAL_RANK": str(settings.rank % per_node),
        "LOCAL_WORLD_SIZE": str(per_node),
        "GROUP_RANK": str(settings.rank // per_node),
        "GROUP_WORLD_SIZE": str(-(-settings.world // per_node)),
        "ROLE_RANK": str(settings.rank),
        "ROLE_WORLD_SIZE": str(settings.world),
    }


def set_rank_variables(settings: Settings) -> None:
    """Makes this process the chosen rank for any framework that reads the environment."""
    if settings.world is None:
        return
    os.environ.update(rank_variables(settings))
    for name, value in _ADDRESS.items():
        os.environ.setdefault(name, value)


def has_nccl_group() -> bool:
    """Whether a process group has been made that may use NCCL."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized():
        return False
    return any("nccl" in str(config) for config in c10d._world.pg_backend_config.values())


def store_class(base: type) -> type:
    """A store (subclass of torch.distributed.Store) that never waits for another rank."""

    class AnsweringStore(base):
        """Keeps what this rank writes; what only others would write is 128 zero bytes, a unique id of NCCL."""

        def __init__(self, *arguments: Any, **options: Any):
            super().__init__()
            self._values: Dict[str, bytes] = {}
            self._lock = threading.Lock()
            _kept.append(self)  # C++ holds the store without its Python half.

        def set(self, key: str, value: Any) -> None:
            with self._lock:
                self._values[key] = value if isinstance(value, bytes) else str(value).encode()

        def get(self, key: str) -> bytes:
            with self._lock:
                return self._values.get(key, _UNIQUE_ID)

        def add(self, key: str, amount: int) -> int:
            with self._lock:
                count = int(self._values.get(key, b"0")) + amount
                self._values[key] = str(count).encode()
                return count

        def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
            value = desired if isinstance(desired, bytes) else str(desired).encode()
            before = expected if isinstance(expected, bytes) else str(expected).encode()
            with self._lock:
                if self._values.get(key, b"") == before:
                    self._values[key] = value
                return self._values.get(key, before)

        def check(self, keys: List[str]) -> bool:
            with self._lock:
                return all(key in self._values or not key.endswith(_ALARMS) for key in keys)

        def wait(self, keys: List[str], timeout: Any = None) -> None:
            return None

        def delete_key(self, key: str) -> bool:
            with self._lock:
                return self._values.pop(key, None) is not None

        def num_keys(self) -> int:
            return len(self._values)

        def append(self, key: str, value: Any) -> None:
            with self._lock:
                self._values[key] = self._values.get(key, b"") + (value if isinstance(value, bytes) else str(value).encode())

        def multi_get(self, keys: List[str]) -> List[bytes]:
            return [self.get(key) for key in keys]

        def multi_set(self, keys: List[str], values: List[Any]) -> None:
            for key, value in zip(keys, values):
                self.set(key, value)

        def has_extended_api(self) -> bool:
            return True

        def set_timeout(self, timeout: Any) -> None:
            return None

        def clone(self) -> Any:
            return self

    return AnsweringStore


_kept: List[Any] = []


class _Collectives:
    """What collectives of Python objects return: every other rank holds what this rank holds."""

    def __init__(self, session: Any, c10d: Any):
        self._session = session
        self._c10d = c10d

    def all_gather_object(self, object_list: List[Any], obj: Any, group: Any = None) -> None:
        """Every rank sent `obj`."""
        for i in range(len(object_list)):
            object_list[i] = obj

    def gather_object(self, obj: Any, object_gather_list: Any = None, dst: Any = None, group: Any = None, **_: Any) -> None:
        """Every rank sent `obj`."""
        if object_gather_list:
            self.all_gather_object(object_gather_list, obj)

    def broadcast_object_list(self, object_list: List[Any], src: Any = None, *args: Any, **kwargs: Any) -> None:
        """The sender's list is the one that is here."""
        if object_list and all(item is None for item in object_list) and (src or 0) != self._c10d.get_rank():
            self._session.guess("broadcast_object_list of a rank that does not exist left None in the list")

    def scatter_object_list(
        self, scatter_object_output_list: List[Any], scatter_object_input_list: Any = None, src: Any = None, group: Any = None, **_: Any
    ) -> None:
        """This rank's part, if the list is here."""
        rank = self._c10d.get_rank(group) if group is not None else self._c10d.get_rank()
        if scatter_object_input_list:
            scatter_object_output_list[0] = scatter_object_input_list[min(rank, len(scatter_object_input_list) - 1)]

    def send_object_list(self, object_list: List[Any], *args: Any, **kwargs: Any) -> None:
        """Nobody receives."""

    def recv_object_list(self, object_list: List[Any], *args: Any, **kwargs: Any) -> int:
        """Nobody sends."""
        self._session.guess("recv_object_list from a rank that does not exist left the list as it was")
        return 0

    def monitored_barrier(self, *args: Any, **kwargs: Any) -> None:
        """Everybody has arrived."""


_GATHERS = ("all_gather_object", "gather_object")
_OBJECTS = (*_GATHERS, "broadcast_object_list", "scatter_object_list", "send_object_list", "recv_object_list", "monitored_barrier")


def _put_collectives(session: Any, c10d: Any) -> None:
    answers = _Collectives(session, c10d)
    for name in _OBJECTS:
        if hasattr(c10d, name):
            setattr(c10d, name, getattr(answers, name))


def _put_gathers_of_one(session: Any, c10d: Any) -> None:
    """What a rank gathers alone is what it sent: on the stand-in, the bytes that NCCL would copy are not there."""
    answers = _Collectives(session, c10d)

    def gathering(original: Callable[..., None], answer: Callable[..., None], group_at: int) -> Callable[..., None]:
        @functools.wraps(original)
        def gather(*args: Any, **kwargs: Any) -> None:
            group = args[group_at] if len(args) > group_at else kwargs.get("group")
            alone = session.device is not None and session.device.is_standin and c10d.get_world_size(group) == 1
            (answer if alone else original)(*args, **kwargs)

        return gather

    for name, group_at in zip(_GATHERS, (2, 3)):
        if hasattr(c10d, name):
            setattr(c10d, name, gathering(getattr(c10d, name), getattr(answers, name), group_at))


def _gloo_without_peers(c10d: Any) -> Any:
    """Stands in for the class ProcessGroupGloo: makes torch's fake process group, which connects to nobody."""
    import torch._C._distributed_c10d as native

    fake, gloo = native.FakeProcessGroup, getattr(native, "ProcessGroupGloo", None)
    fake._set_sequence_number_for_group = lambda self: None
    fake._get_sequence_number_for_group = lambda self: 0
    if not hasattr(fake, "options"):  # PyTorch 2.8 writes the group's name and ranks into Gloo's options.
        fake.options = types.SimpleNamespace()
    fake._set_default_timeout = lambda self, timeout: None

    class Answers(type):
        def __call__(cls, store: Any, rank: int, size: int, timeout: Any = None) -> Any:
            make = getattr(fake, "_create_internal", fake)
            return make(rank, size)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, tuple(kind for kind in (fake, gloo) if kind is not None))

        def __getattr__(cls, name: str) -> Any:
            return getattr(gloo, name)

    return Answers("ProcessGroupGloo", (), {})


def _announce_groups(session: Any, c10d: Any) -> None:
    """Tells the stand-in how large each group is, before PyTorch makes its communicator."""
    original = getattr(c10d, "_new_process_group_helper", None)
    if original is None:
        return

    def helper(group_size: int, group_rank: int, *args: Any, **kwargs: Any) -> Any:
        if isinstance(group_rank, int):  # None: this rank is no member
            session.device.announce_group(group_size, group_rank)
        return original(group_size, group_rank, *args, **kwargs)

    c10d._new_process_group_helper = helper


def _put_rendezvous(store_type: type, settings: Settings) -> Callable[[Any], None]:
    """Every init_method leads to a store of ours."""

    def put(rendezvous: Any) -> None:
        def handler(url: str, *args: Any, **kwargs: Any):
            yield store_type(), settings.rank, settings.world

        for scheme in list(rendezvous._rendezvous_handlers):
            rendezvous._rendezvous_handlers[scheme] = handler
        for name in ("TCPStore", "FileStore"):
            if hasattr(rendezvous, name):
                setattr(rendezvous, name, store_type)

    return put


def _exchange_shapes(process_group: Any, tensors: List[Any], logger: Any = None) -> None:
    """What DDP sends before it compares the parameters of all ranks; the others have the same module.

    Source: pytorch/pytorch 2.11 torch/csrc/distributed/c10d/reducer.cpp, verify_params_across_processes."""
    import torch

    device = tensors[0].device
    own = torch.tensor([len(tensors)], dtype=torch.int64, device=device)
    counts = [torch.empty_like(own) for _ in range(process_group.size())]
    process_group.allgather([counts], [own]).wait()
    entries = [entry for tensor in tensors for entry in (*tensor.size(), *tensor.stride())]
    shapes = torch.tensor(entries, dtype=torch.int64).to(device)
    process_group.broadcast([shapes]).wait()


def hooks(session: Any) -> Dict[str, List[Callable[[Any], None]]]:
    """Hooks for torch.distributed: it gets a made-up world if one is asked for, and says how large its groups are."""
    settings = session.settings

    def groups_imported(c10d: Any) -> None:
        if hasattr(c10d, "Store"):
            _announce_groups(session, c10d)

    def real_groups_imported(c10d: Any) -> None:
        if hasattr(c10d, "Store"):
            _announce_groups(session, c10d)
            _put_gathers_of_one(session, c10d)

    if settings.world is None:
        return {"torch.distributed.distributed_c10d": [real_groups_imported]}

    def c10d_imported(c10d: Any) -> None:
        if not hasattr(c10d, "Store"):
            return  # A build without torch.distributed.
        store_type = store_class(c10d.Store)
        _put_rendezvous(store_type, settings)(sys.modules["torch.distributed.rendezvous"])
        _put_collectives(session, c10d)
        groups_imported(c10d)
        if hasattr(c10d, "ProcessGroupGloo"):
            c10d.ProcessGroupGloo = _gloo_without_peers(c10d)
        session.store_type = store_type

    def distributed_imported(distributed: Any) -> None:
        if hasattr(session, "store_type"):
            distributed.TCPStore = session.store_type
            distributed.FileStore = session.store_type

    def ddp_imported(ddp: Any) -> None:
        ddp._verify_param_shape_across_processes = _exchange_shapes

    def planner_imported(planner: Any) -> None:
        kind = getattr(planner, "DefaultSavePlanner", None)
        if kind is None or not hasattr(planner, "_validate_global_plan"):
            return
        original = kind.create_global_plan

        def create_global_plan(self: Any, all_plans: List[Any]) -> Any:
            """The plan of this rank alone: shards that every rank announces would be divided among them."""
            plans, metadata = original(self, all_plans[:1])
            return plans * len(all_plans), metadata

        kind.create_global_plan = create_global_plan
        planner._validate_global_plan = lambda *args, **kwargs: True  # It misses the shards of the others.

    return {
        "torch.distributed.checkpoint.default_planner": [planner_imported],
        "torch.distributed.distributed_c10d": [c10d_imported],
        "torch.distributed": [distributed_imported],
        "torch.nn.parallel.distributed": [ddp_imported],
    }
