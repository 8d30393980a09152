"""Figures of PyTorch's allocator in each phase of a case, which make a row of tests/measured."""
import collections
import contextlib
import ctypes
import gc
import json
import pathlib
import sys
import time

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "validators" / "torch" / "python"))

from headroom_torch.phases import Unobserved, allocator_figures

# NCCL's watchdog releases the blocks of finished works every 100 ms (kWatchdogThreadSleepMillis in
# torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp). A step on a real GPU is longer than that.
NCCL_PAUSE = 0.25  # Seconds.
LARGEST = 40  # Entries of a live set.
EVENTS = 4_000_000  # More than any phase has.


def device_work():
    """The work that the stand-in was given since the last call; None on a real GPU."""
    read = getattr(ctypes.CDLL(None), "headroom_gpu_work", None)
    if read is None:
        return None
    buffer = ctypes.create_string_buffer(1 << 20)
    read(buffer, ctypes.c_size_t(len(buffer)))
    return json.loads(buffer.value)


def live_blocks(segments):
    """The number of blocks in use, by requested size (bytes)."""
    return collections.Counter(block["requested_size"] for segment in segments for block in segment["blocks"]
                               if block["state"].startswith("active"))


def live_at_peak(before, events):
    """The blocks in use where the sum of requested bytes was first at its greatest.

    `before`: those in use before the first event; `events`: the allocator's trace."""
    change = {"alloc": 1, "free_completed": -1}
    total = peak = sum(size * count for size, count in before.items())
    peak_end = 0
    for end, event in enumerate(events, start=1):
        total += change.get(event["action"], 0) * event["size"]
        if total > peak:
            peak, peak_end = total, end
    alive = collections.Counter(before)
    for event in events[:peak_end]:
        alive[event["size"]] += change.get(event["action"], 0)
    return collections.Counter({size: count for size, count in alive.items() if count})


def largest(blocks):
    """[[requested bytes, count], ...] of the blocks that take most."""
    return [[int(size), int(count)]
            for size, count in sorted(blocks.items(), key=lambda item: -item[0] * item[1])[:LARGEST]]


class Phases:
    """Rows, one for each `with phases(name):`. `collect`: Python's cyclic collector runs at the ends of
    phases and at no other time, so that it cannot decide where a peak is."""

    def __init__(self, pause=0.0, collect=True):
        self.rows = []
        self._pause = pause
        self._collect = collect
        torch.cuda.memory._record_memory_history(enabled=None)  # Whoever has begun one.
        if collect:
            gc.disable()
            gc.freeze()

    @contextlib.contextmanager
    def __call__(self, name):
        torch.cuda.synchronize()
        time.sleep(self._pause)
        torch.cuda.reset_peak_memory_stats()
        before = live_blocks(torch.cuda.memory_snapshot())
        torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=EVENTS)
        allocated = torch.cuda.memory_allocated()
        device_work()
        yield
        if self._collect:
            gc.collect()
        torch.cuda.synchronize()
        work = device_work()
        figures = allocator_figures(torch.cuda.memory_stats())
        events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
        torch.cuda.memory._record_memory_history(enabled=None)
        row = {
            "phase": name,
            "allocated_before": allocated,
            **figures,
            "alloc_events": sum(event["action"] == "alloc" for event in events),
            "live_at_peak": largest(live_at_peak(before, events)),
            "live_after": largest(live_blocks(torch.cuda.memory_snapshot())),
        }
        if work:
            row["work"] = work
        self.rows.append(row)
