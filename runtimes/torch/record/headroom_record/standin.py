"""What the recorder tells the stand-in GPU (validators/dryrun/standin)."""

import ctypes


class StandIn:
    """The library that `headroom import` has preloaded; nothing happens without it."""

    def __init__(self) -> None:
        self._next_count = getattr(ctypes.CDLL(None), "headroom_gpu_next_count", None)
        if self._next_count is not None:
            self._next_count.argtypes, self._next_count.restype = [ctypes.c_longlong], None

    def next_count(self, count: int) -> None:
        """Says how many elements the next operator like nonzero finds."""
        if self._next_count is not None:
            self._next_count(count)
