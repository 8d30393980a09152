"""Everything that the allocator was asked for, in order: what `headroom dryrun --record` keeps.

The source is the allocator's history. The allocator's counters say how many events there have been, so that phases
end between the right two events and a history that has lost some is noticed: half a program is not written.
"""

import bisect
import json
import os
import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from .frames import describe
from .history import Block
from .phases import fullest

_COUNTED = ("alloc", "free_requested", "free_completed")
_LARGEST_SPLIT = 1 << 50  # Larger values mean that the setting is off.
_TRIES = 5  # Readings of a history to which another thread adds.
Mark = Tuple[int, int]  # Events so far, and how often the cache has been emptied.
MOST_EVENTS = 8_000_000  # The limit of validators/dryrun/recorded_program.h.


def position(stats: Dict[str, Any]) -> int:
    """The number of events of the kinds `_COUNTED` so far on the device of `stats`."""
    allocation = stats.get("allocation", {}).get("all", {})
    active = stats.get("active", {}).get("all", {})
    return allocation.get("allocated", 0) + allocation.get("freed", 0) + active.get("freed", 0)


def alloc_conf(settings: Dict[str, Any]) -> Optional[str]:
    """The settings of a snapshot in the form of PYTORCH_ALLOC_CONF; None if they are not the same for all sizes."""
    parts = []
    if settings.get("expandable_segments"):
        parts.append("expandable_segments:True")
    split = settings.get("max_split_size", -1)
    if 0 < split < _LARGEST_SPLIT:
        parts.append(f"max_split_size_mb:{split >> 20}")
    text = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    rounding = re.search(r"max_non_split_rounding_mb:(\d+)", text.replace(" ", ""))  # No snapshot has it.
    if rounding:
        parts.append(rounding.group(0))
    threshold = settings.get("garbage_collection_threshold", 0)
    if threshold:
        parts.append(f"garbage_collection_threshold:{threshold:g}")
    divisions = set((settings.get("roundup_power2_divisions") or {"all": 0}).values())
    if len(divisions) > 1:
        return None
    steps = divisions.pop()
    if steps > 1:
        parts.append(f"roundup_power2_divisions:{steps}")
    return ",".join(parts)


class Events:
    """The events of one device. A block is named by the number of its allocation."""

    def __init__(self) -> None:
        self.kinds: List[str] = []  # "a" allocate, "l" let go (another stream still uses it), "f" free
        self.blocks: List[int] = []
        self.ends: List[int] = []  # The position after each event.
        self.sizes: List[int] = []  # Requested bytes, by block.
        self.streams: List[int] = []
        self.lines: List[str] = []
        self.addresses: List[int] = []
        self.born: List[int] = []
        self.freed: List[Optional[int]] = []
        self.position = 0
        self.lost = ""
        self._alive: Dict[int, int] = {}

    def add(self, trace: List[Dict[str, Any]], end: int) -> None:
        """Takes what is new in `trace`, the history at the position `end`."""
        missing = end - self.position
        if self.lost or missing <= 0:
            return
        first = len(trace)
        while missing and first:
            first -= 1
            action = trace[first]["action"]
            missing -= action in _COUNTED
            if action == "oom":
                self.lost = "the program ran out of memory"
                return
        if missing:
            self.lost = "the allocator's history has lost events: too many came in one phase"
            return
        lines: Dict[int, str] = {}  # Events of one stack share its list of frames.
        for event in trace[first:]:
            self._take(event, lines)
        if len(self.kinds) > MOST_EVENTS:
            self.lost = f"the program has more than {MOST_EVENTS} events: record fewer steps"

    def _take(self, event: Dict[str, Any], lines: Dict[int, str]) -> None:
        action = event["action"]
        if action not in _COUNTED:
            return
        self.position += 1
        address = event["addr"]
        if action == "alloc":
            frames = event.get("frames") or []
            if id(frames) not in lines:
                lines[id(frames)] = describe(frames)
            block = len(self.sizes)
            self._alive[address] = block
            self.sizes.append(event["size"])
            self.streams.append(event.get("stream", 0))
            self.lines.append(lines[id(frames)])
            self.addresses.append(address)
            self.born.append(event.get("time_us", 0))
            self.freed.append(None)
        else:
            block = self._alive.get(address, -1)
            if block < 0:
                self.lost = "a block was released that the history does not know"
                return
            if action == "free_completed":
                del self._alive[address]
            self.freed[block] = self.freed[block] or event.get("time_us", 0)
        self.kinds.append({"alloc": "a", "free_requested": "l"}.get(action, "f"))
        self.blocks.append(block)
        self.ends.append(self.position)

    def is_freed_next(self, index: int) -> bool:
        """Whether the event after `index` frees the same block."""
        after = index + 1
        return after < len(self.kinds) and (self.kinds[after], self.blocks[after]) == ("f", self.blocks[index])


class Recording:
    """The events of one process, from the start of CUDA to its last phase."""

    def __init__(self, stats: Callable[[int], Dict[str, Any]], devices: Callable[[], List[int]]):
        """`stats(device)`: the allocator's statistics; `devices()`: those that this process has allocated on."""
        self._stats = stats
        self._used = devices
        self._events: Dict[int, Events] = {}
        self._emptied: List[Dict[int, int]] = []  # Each time the cache was emptied: the position, by device.
        self.lost = ""
        self.settings: Dict[str, Any] = {}
        self.private_pools = False

    def mark(self, stats: Dict[str, Any]) -> Mark:
        """This moment, between two events of the device of `stats`."""
        return position(stats), len(self._emptied)

    def read(self, device: int, snapshot: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        """`snapshot()`, of which the new events are kept."""
        for _ in range(_TRIES):
            before = position(self._stats(device))
            content = snapshot()
            if position(self._stats(device)) == before:
                break
        else:
            self.lost = self.lost or "another thread allocated all the time"
        traces = content.get("device_traces") or []
        self._events.setdefault(device, Events()).add(traces[device] if device < len(traces) else [], before)
        self.settings = content.get("allocator_settings", self.settings)
        pools = (segment.get("segment_pool_id", (0, 0)) for segment in content["segments"])
        self.private_pools = self.private_pools or any(tuple(pool) != (0, 0) for pool in pools)
        return content

    def watch(self, torch: Any) -> None:
        """Notes when the program empties the cache or changes the allocator's settings."""
        for name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
            if hasattr(torch._C, name):
                setattr(torch._C, name, self._around_empty_cache(getattr(torch._C, name)))
        for name in ("_cuda_cudaCachingAllocator_set_allocator_settings", "_accelerator_setAllocatorSettings"):
            if hasattr(torch._C, name):
                setattr(torch._C, name, self._around_settings(getattr(torch._C, name)))

    def _around_empty_cache(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def empty_cache(*args: Any) -> Any:
            result = original(*args)
            self._emptied.append({device: position(self._stats(device)) for device in self._used()})
            return result

        return empty_cache

    def _around_settings(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def change(*args: Any) -> Any:
            if any(position(self._stats(device)) for device in self._used()):
                self.lost = self.lost or "the program changed the allocator's settings after its first allocation"
            return original(*args)

        return change

    def program(self, session: Any) -> Dict[str, Any]:
        """The program that is written: the events of the report's device, and how the allocator was set."""
        rows = session.phases.rows
        device = fullest(rows)
        if session.history.user_records:
            self.lost = self.lost or "the program records its own memory history"
        rows = [row for row in rows if row["device"] == device]
        settings = alloc_conf(self.settings)
        if settings is None:
            self.lost = self.lost or "roundup_power2_divisions differs between sizes"
        events = self.columns(rows, device, session.categories.of)
        if "lost" in events:
            return {"version": 1, **events}
        fraction = getattr(session.torch._C, "_cuda_getMemoryFraction", lambda device: 1.0)
        return {
            "version": 1,
            "alloc_conf": settings,
            "memory_fraction": float(fraction(device)),
            "private_pools": self.private_pools,
            "events": events,
        }

    def columns(self, rows: List[Dict[str, Any]], device: int, category: Callable[[Block, str], str]) -> Dict[str, Any]:
        """The program as JSON. `rows`: the phases of `device`; `category(block, phase)` as `Categories.of`."""
        events = self._events.get(device, Events())
        lost = self.lost or events.lost
        marks = [row["mark"] for row in rows]
        if not lost and marks != sorted(marks):
            lost = f"the program has more than {len(rows)} phases: record fewer steps"
        if not lost and marks and events.position < marks[-1][0]:
            lost = "the last events were not read"
        if lost:
            return {"lost": lost}
        emptied = [positions.get(device, 0) for positions in self._emptied]
        return _columns(events, rows, emptied, category)


def _moments(rows: List[Dict[str, Any]], emptied: List[int]) -> List[Tuple[int, float, str]]:
    """Ends of phases ("p") and releases of the cache ("e") by position, in their order."""
    moments = [(row["mark"][0], row["mark"][1] - 0.5, "p") for row in rows]
    moments += [(at, float(number), "e") for number, at in enumerate(emptied)]
    return sorted(moments)


def _columns(events: Events, rows: List[Dict[str, Any]], emptied: List[int], category: Callable[[Block, str], str]) -> Dict[str, Any]:
    """`events` up to the end of the last phase, as columns."""
    moments = _moments(rows, emptied)
    marks = {moment[0] for moment in moments}
    ends = [row["mark"][0] for row in rows]
    kinds: List[str] = []
    phases: List[int] = []  # The number of events before the end of each phase.
    released: List[int] = []
    lines: Dict[str, int] = {}
    streams: Dict[int, int] = {0: 0}
    categories: Dict[str, int] = {}
    columns: Dict[str, List[int]] = {"bytes": [], "stream": [], "line": [], "category": []}
    passed = 0
    for index in range(len(events.kinds) + 1):
        before = events.ends[index - 1] if index else 0
        while len(phases) < len(rows) and passed < len(moments) and moments[passed][0] <= before:
            if moments[passed][2] == "p":
                phases.append(len(kinds))
            else:
                kinds.append("e")
            passed += 1
        if len(phases) == len(rows) or index == len(events.kinds):
            break
        kind, block = events.kinds[index], events.blocks[index]
        if kind == "a":
            about = Block(events.addresses[block], events.sizes[block], [], events.born[block], events.freed[block])
            columns["bytes"].append(events.sizes[block])
            columns["stream"].append(streams.setdefault(events.streams[block], len(streams)))
            columns["line"].append(lines.setdefault(events.lines[block], len(lines)))
            what = category(about, rows[bisect.bisect_left(ends, events.ends[index])]["name"])
            columns["category"].append(categories.setdefault(what, len(categories)))
        else:
            if kind == "l" and events.ends[index] not in marks and events.is_freed_next(index):
                continue  # Its release follows at once and says it all.
            released.append(block)
        kinds.append(kind)
    names = {"lines": list(lines), "categories": list(categories)}
    return {"ends": phases, **names, "kinds": "".join(kinds), **columns, "block": released}


def write(path: str, content: Dict[str, Any]) -> None:
    """Writes `content` under another name first, then renames it."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(content, file, separators=(",", ":"))
    os.replace(path + ".part", path)
