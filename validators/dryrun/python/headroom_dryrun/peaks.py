"""Two readers of one set of peaks: the user's program and the phases of the dry run.

The allocator keeps one peak per statistic. A phase needs it reset at its start; what the user's program reads
(`torch.cuda.max_memory_allocated` and others) must not show that. So every reset first keeps what was reached.
"""

from typing import Any, Callable, Dict, Tuple

Path = Tuple[str, ...]
Peaks = Dict[Path, int]


def peaks_of(stats: Dict[str, Any], path: Path = ()) -> Peaks:
    """Every number called "peak" in the nested dictionaries of the allocator, by where it stands."""
    found: Peaks = {}
    for key, value in stats.items():
        if isinstance(value, dict):
            found.update(peaks_of(value, path + (key,)))
        elif key == "peak":
            found[path] = value
    return found


def _raise_to(kept: Peaks, reached: Peaks) -> None:
    for path, value in reached.items():
        kept[path] = max(kept.get(path, 0), value)


class PeakLedger:
    """Keeps peaks for both readers; `read` and `reset` are the allocator's own functions, by device index."""

    def __init__(self, read: Callable[[int], Dict[str, Any]], reset: Callable[[int], None]):
        self._read = read
        self._reset = reset
        self._user: Dict[int, Peaks] = {}
        self._phase: Dict[int, Peaks] = {}

    def user_stats(self, device: int) -> Dict[str, Any]:
        """The statistics as they would be if only the user's program had reset them."""
        stats = self._read(device)
        for path, value in self._user.get(device, {}).items():
            entry: Any = stats
            for key in path:
                entry = entry.get(key, {})
            if "peak" in entry:
                entry["peak"] = max(entry["peak"], value)
        return stats

    def user_reset(self, device: int) -> None:
        """The user's program resets its peaks; the phase keeps what it has reached."""
        _raise_to(self._phase.setdefault(device, {}), peaks_of(self._read(device)))
        self._user.pop(device, None)
        self._reset(device)

    def end_phase(self, device: int) -> Tuple[Dict[str, Any], Peaks]:
        """The statistics and the peaks of the phase that ends now; a new one starts."""
        stats = self._read(device)
        reached = peaks_of(stats)
        _raise_to(self._user.setdefault(device, {}), reached)
        _raise_to(reached, self._phase.pop(device, {}))
        self._reset(device)
        return stats, reached
