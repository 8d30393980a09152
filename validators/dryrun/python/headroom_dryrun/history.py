"""What was alive at the highest point, and which line asked for it, from the allocator's own history.

The allocator keeps its last events and, for each, the Python frames that asked. A digest walks the events backward
from the blocks that are alive now, finds the highest point and keeps what was alive there.
"""

import collections
import dataclasses
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from .frames import describe

MAX_ENTRIES = 240_000  # Events that the allocator keeps: about 1 KB of host memory each.
DIGEST_AFTER = 60_000  # Allocations: each makes three events (alloc, free_requested, free_completed).
RECORDED_ENTRIES = 1_200_000  # MAX_ENTRIES where every event is kept: a single phase may have as many.
_ROUNDING = 512  # Bytes: kMinBlockSize in c10/cuda/CUDACachingAllocator.cpp.
_ROWS = 40  # Rows of a live set; the rest becomes one row.


@dataclasses.dataclass
class Block:
    """A block that was alive, from `born` to `freed` (microseconds since 1970; 0: before the history; None: still)."""

    address: int
    size: int
    frames: List[Dict[str, Any]]
    born: int = 0
    freed: Optional[int] = None


@dataclasses.dataclass
class HighPoint:
    """The most that was alive at once, in bytes as asked for, rounded up to 512, and when."""

    size: int
    time: int
    live: List[Block]


def _rounded(size: int) -> int:
    return -(-max(size, 1) // _ROUNDING) * _ROUNDING


def live_now(segments: Iterable[Dict[str, Any]], device: int) -> Dict[int, Block]:
    """The blocks in use, by address."""
    blocks: Dict[int, Block] = {}
    for segment in segments:
        if segment.get("device", device) != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            at = block.get("address", address)
            if block["state"].startswith("active"):
                size = block.get("requested_size", block["size"])
                blocks[at] = Block(at, size, block.get("frames") or [])
            address += block["size"]
    return blocks


def high_point(live: Dict[int, Block], trace: List[Dict[str, Any]], left_out: Sequence[Tuple[int, int]] = ()) -> HighPoint:
    """Walks `trace` backward from the blocks in `live`, then forward to the highest point that lies in no span of
    `left_out`."""
    total = sum(_rounded(block.size) for block in live.values())
    best, best_index = total, len(trace)
    for index in range(len(trace) - 1, -1, -1):  # `total` is what was alive before the event at `index`.
        event = trace[index]
        if event["action"] == "alloc":
            total -= _rounded(event["size"])
        elif event["action"] == "free_completed":
            total += _rounded(event["size"])
        if total >= best and not (left_out and _is_within(trace[index - 1].get("time_us", 0) if index else 0, left_out)):
            best, best_index = total, index
    blocks = _alive_before(live, trace, best_index)
    time = trace[best_index - 1].get("time_us", 0) if trace and best_index else 0
    return HighPoint(best, time, blocks)


def _is_within(time: int, spans: Sequence[Tuple[int, int]]) -> bool:
    return any(begin < time <= end for begin, end in spans)


def _alive_before(live: Dict[int, Block], trace: List[Dict[str, Any]], index: int) -> List[Block]:
    """The blocks that were alive before the event at `index`."""
    alive = dict(live)
    for event in reversed(trace[index:]):
        if event["action"] == "alloc":
            alive.pop(event["addr"], None)
        elif event["action"] == "free_completed":
            alive[event["addr"]] = Block(event["addr"], event["size"], [], 0, event.get("time_us"))
    for event in trace[:index]:  # Who asked is written with the allocation.
        block = alive.get(event.get("addr", -1)) if event["action"] == "alloc" else None
        if block is not None and block.size == event["size"]:
            block.frames = event.get("frames") or block.frames
            block.born = event.get("time_us", 0)
    return list(alive.values())


def live_rows(
    blocks: Iterable[Block], category: Callable[[Block], str], total: Optional[int] = None
) -> List[Dict[str, Any]]:
    """Blocks summed by frame and category, largest first. `total`: what the allocator says was allocated."""
    sums: Dict[Tuple[str, str], List[int]] = collections.defaultdict(lambda: [0, 0])
    for block in blocks:
        entry = sums[(describe(block.frames), category(block))]
        entry[0] += _rounded(block.size)
        entry[1] += 1
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    rows = [
        {"bytes": size, "count": count, "frame": frame, "category": kind}
        for (frame, kind), (size, count) in ordered[:_ROWS]
    ]
    rest: Dict[str, List[int]] = collections.defaultdict(lambda: [0, 0])
    for (_, kind), (size, count) in ordered[_ROWS:]:
        rest[kind][0] += size
        rest[kind][1] += count
    rows += [{"bytes": s, "count": n, "frame": "(smaller ones)", "category": k} for k, (s, n) in sorted(rest.items())]
    missing = (total or 0) - sum(row["bytes"] for row in rows)
    if missing > 0:
        rows.append({"bytes": missing, "count": 0, "frame": "(ends of blocks that the allocator did not split)", "category": "other"})
    return rows


class History:
    """Switches the allocator's history on and digests it before it overwrites itself."""

    def __init__(self, memory: Any, recording: Optional[Any] = None):
        """`memory` is torch.cuda.memory; `recording` is the Recording that keeps every event, if one does."""
        self._memory = memory
        self._recording = recording
        self._entries = MAX_ENTRIES if recording is None else RECORDED_ENTRIES
        self._record = memory._record_memory_history
        self._digested = 0
        self._on = False
        self.best: Dict[int, HighPoint] = {}
        self._left_out: List[Tuple[int, int]] = []  # Microseconds since 1970.
        self.user_records = False

    def start(self) -> None:
        """Begins to record, unless the user's program does."""
        if self._on or self.user_records:
            return
        self._record(enabled="all", context="alloc", stacks="python", max_entries=self._entries)
        self._on = True
        self._memory._record_memory_history = self._user_call

    def _user_call(self, enabled: Any = "all", *args: Any, **kwargs: Any) -> Any:
        """The user's program records itself: its arguments count; when it stops, ours go on."""
        self.user_records = enabled is not None and enabled is not False
        result = self._record(enabled, *args, **kwargs)
        if not self.user_records:
            self._record(enabled="all", context="alloc", stacks="python", max_entries=self._entries)
        return result

    def after_phase(self, device: int, allocations: int) -> None:
        """Digests when the events since the last digest come near to what the allocator keeps."""
        if self._on and allocations - self._digested > DIGEST_AFTER:
            self.digest(device)
            self._digested = allocations

    def digest(self, device: int) -> Optional[HighPoint]:
        """The highest point of the events that the allocator still has, or an earlier one if that was higher."""
        if not self._on:
            return None
        point = high_point(*self._read(device), self._left_out)
        if device not in self.best or point.size >= self.best[device].size:
            self.best[device] = point
        return self.best[device]

    def leave_out(self, spans: Sequence[Tuple[int, int]]) -> None:
        """Leaves out what was alive in these spans."""
        self._left_out += spans
        self.best = {device: point for device, point in self.best.items() if not _is_within(point.time, spans)}

    def live(self, device: int) -> List[Block]:
        """What is alive now."""
        live, trace = self._read(device)
        return _alive_before(live, trace, len(trace))

    def _read(self, device: int) -> Tuple[Dict[int, Block], List[Dict[str, Any]]]:
        """The blocks in use and the events that the allocator still has."""
        take = self._memory._snapshot
        snapshot = take() if self._recording is None else self._recording.read(device, take)
        traces = snapshot.get("device_traces") or []
        return live_now(snapshot["segments"], device), traces[device] if device < len(traces) else []

    def dump(self, path: str) -> None:
        """Writes the allocator's snapshot as torch.cuda.memory._dump_snapshot does."""
        self._memory._dump_snapshot(path)
