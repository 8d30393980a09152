from . import memory

_ready = False
_waiting = []


def is_initialized():
    return _ready


def _lazy_call(function):
    function() if _ready else _waiting.append(function)


def _lazy_init():
    global _ready
    if not _ready:
        _ready = True
        for function in _waiting:
            function()


def device_count():
    return 1


def current_device():
    return 0


def get_device_properties(index):
    from types import SimpleNamespace

    return SimpleNamespace(name="fake GPU", total_memory=1 << 40)


def max_memory_allocated():
    from .. import _C

    return _C._cuda_memoryStats(0)["allocated_bytes"]["all"]["peak"]


def reset_peak_memory_stats():
    from .. import _C

    _C._cuda_resetPeakMemoryStats(0)


def empty_cache():
    from .. import _C

    if _ready:
        _C._cuda_emptyCache()
