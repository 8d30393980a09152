"""The functions of the stand-in GPU that Python calls. Every one of them may be absent."""

import ctypes
import json
from typing import Any, Dict, Optional

_CAPACITY = 1 << 20  # Bytes of the JSON that a function may return.


class Device:
    """The library that LD_PRELOAD put into this process; without it every answer is empty."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._work = getattr(library, "headroom_gpu_work", None) or getattr(library, "nullgpu_work", None)
        self._state = getattr(library, "headroom_gpu_state", None)
        self._next_count = getattr(library, "headroom_gpu_next_count", None)
        if self._next_count is not None:
            self._next_count.argtypes = [ctypes.c_longlong]
            self._next_count.restype = None
        self._next_counts = getattr(library, "headroom_gpu_next_counts", None)
        if self._next_counts is not None:
            self._next_counts.argtypes = [ctypes.c_longlong, ctypes.c_int]
            self._next_counts.restype = None
        self._next_group = getattr(library, "headroom_gpu_next_group", None)
        self._state_values = self._function(library, "headroom_gpu_state_values", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        self._forget_values = self._function(library, "headroom_gpu_forget_values", ctypes.c_void_p, ctypes.c_size_t)
        self._known_values = self._function(library, "headroom_gpu_known_values", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
        self._take_peak = self._function(library, "headroom_gpu_take_peak")
        if self._take_peak is not None:
            self._take_peak.restype = ctypes.c_ulonglong
        self.is_standin = self._work is not None

    @staticmethod
    def _function(library: Any, name: str, *types: Any) -> Optional[Any]:
        function = getattr(library, name, None)
        if function is not None:
            function.argtypes = list(types)
        return function

    def work(self) -> Dict[str, Any]:
        """What was asked of the device since the last call."""
        return self._read(self._work)

    def state(self) -> Dict[str, Any]:
        """Bytes on the device and on the host, refused functions and guesses of the library."""
        return self._read(self._state)

    def take_peak(self) -> Optional[int]:
        """The most bytes in use on one device since the last call, as nvidia-smi would show them."""
        return None if self._take_peak is None else int(self._take_peak())

    def announce_count(self, count: int, times: int = 1) -> bool:
        """Says which count the next nonzero-like kernels find. False where the library cannot be told."""
        if times > 1 and self._next_counts is not None:
            self._next_counts(count, times)
            return True
        if self._next_count is None:
            return False
        self._next_count(count)
        return True

    def announce_group(self, ranks: int, rank: int) -> None:
        """Says the size of the next group and the rank in it: a split of a communicator of NCCL does not."""
        if self._next_group is not None:
            self._next_group(ctypes.c_int(ranks), ctypes.c_int(rank))

    def state_values(self, address: int, values: Any) -> bool:
        """Says that a kernel has written `values` (an array.array) to `address`. False where the library cannot be told."""
        if self._state_values is None:
            return False
        where, count = values.buffer_info()
        self._state_values(address, where, count * values.itemsize)
        return True

    def forget_values(self, address: int, size: int) -> None:
        """Says that these bytes hold something else now."""
        if self._forget_values is not None:
            self._forget_values(address, size)

    def known_values(self, address: int, values: Any) -> bool:
        """Fills `values` (an array.array) with what is known at `address`; False: nothing is."""
        if self._known_values is None:
            return False
        where, count = values.buffer_info()
        return bool(self._known_values(address, count * values.itemsize, where))

    def _read(self, function: Optional[Any]) -> Dict[str, Any]:
        if function is None:
            return {}
        buffer = ctypes.create_string_buffer(_CAPACITY)
        function(buffer, ctypes.c_size_t(len(buffer)))
        try:
            return json.loads(buffer.value.decode("utf-8", "replace") or "{}")
        except ValueError:
            return {}
