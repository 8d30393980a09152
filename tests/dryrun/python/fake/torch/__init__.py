"""A torch package of a few lines: an allocator that counts, modules, autograd and optimizers that only allocate."""

import time

__version__ = "0.fake"


class version:
    cuda = "0.0"


class _C:
    """The allocator: current bytes and peaks, and the events that a memory history keeps."""

    allocated = 0
    peak = 0
    count = 0
    freed = 0
    emptied = 0
    next_address = 1 << 20
    blocks = {}
    events = []
    observer = None
    capacity = 1 << 40

    @staticmethod
    def _cuda_memoryStats(device):
        def entry():
            return {"all": {"current": _C.allocated, "peak": _C.peak}}

        return {
            "allocated_bytes": entry(),
            "reserved_bytes": entry(),
            "requested_bytes": entry(),
            "active": {"all": {"freed": _C.freed}},
            "allocation": {"all": {"allocated": _C.count, "freed": _C.freed, "current": len(_C.blocks), "peak": len(_C.blocks)}},
            "num_alloc_retries": 0,
        }

    @staticmethod
    def _cuda_resetPeakMemoryStats(device):
        _C.peak = _C.allocated

    @staticmethod
    def _cuda_emptyCache():
        _C.emptied += 1

    @staticmethod
    def _cuda_attach_out_of_memory_observer(observer):
        _C.observer = observer


class OutOfMemoryError(RuntimeError):
    pass


def _frames():
    import sys

    frame, found = sys._getframe(2), []
    while frame is not None:
        found.append({"filename": frame.f_code.co_filename, "line": frame.f_lineno, "name": frame.f_code.co_name})
        frame = frame.f_back
    return found


class Tensor:
    """Bytes on the GPU, from its making to its end."""

    is_cuda = True
    dtype = "torch.float32"

    def __init__(self, size):
        cuda._lazy_init()
        if _C.allocated + size > _C.capacity:
            _C.events.append({"action": "oom", "size": size, "device_free": 0, "time_us": 0})
            if _C.observer:
                _C.observer(0, size, _C.capacity, _C.capacity - _C.allocated)
            raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.")
        self.size, self.grad, self.address = size, None, _C.next_address
        _C.next_address += size
        _C.blocks[self.address] = size
        _C.allocated += size
        _C.peak = max(_C.peak, _C.allocated)
        _C.count += 1
        now = int(time.time() * 1e6)
        _C.events.append({"action": "alloc", "addr": self.address, "size": size, "frames": _frames(), "time_us": now})

    def __del__(self):
        if getattr(self, "address", None) is not None and _C is not None:
            _C.allocated -= _C.blocks.pop(self.address)
            _C.freed += 1
            now = int(time.time() * 1e6)
            for action in ("free_requested", "free_completed"):
                _C.events.append({"action": action, "addr": self.address, "size": self.size, "time_us": now})

    def untyped_storage(self):
        return self

    def data_ptr(self):
        return self.address

    def backward(self):
        autograd.backward(self)

    def all(self):
        return self

    def __bool__(self):
        return False

    def nonzero(self):
        return self


def where(*args):
    return args


nonzero = argwhere = all = where

from . import autograd, cuda, nn, optim  # noqa: E402
