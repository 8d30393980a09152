"""Phases of a training program and what the allocator did in each.

The program tells nothing. Its calls do: the first forward of a module ends `load`; a backward pass begins and ends;
what comes between the last backward pass and the end of `optimizer.step` (clipping, too) is `optimizer`; a
`zero_grad` that follows is a phase of its own; everything else until the next backward pass is `forward`.
"""

import dataclasses
import time
from typing import Any, Callable, Dict, List, Optional

from .peaks import Path, PeakLedger, Peaks

_ALLOCATED: Path = ("allocated_bytes", "all")
_RESERVED: Path = ("reserved_bytes", "all")
_REQUESTED: Path = ("requested_bytes", "all")
_PEAKS = ("peak_allocated", "peak_reserved", "peak_requested", "device_peak")
_ENDS = ("allocated_after", "reserved_after", "requested_after", "retries", "ended", "mark")
# What is allocated between the making of the optimizer and the first forward is a batch if it adds at most 1 %;
# more is a wrapper's buffers or a model that is moved only now.
_BATCH = 1.01
_MOST_ROWS = 20_000  # Rows of a report; a step has five for each micro-batch and device at most.
_SEARCHED = 1_000  # Rows in which the last one of a kind is looked for.

Row = Dict[str, Any]


def _current(stats: Dict[str, Any], path: Path) -> int:
    return stats.get(path[0], {}).get(path[1], {}).get("current", 0)


@dataclasses.dataclass
class Probe:
    """The questions that the recorder asks when a phase ends."""

    ledger: PeakLedger
    devices: Callable[[], List[int]]  # Devices that this process has allocated on.
    work: Callable[[], Dict[str, Any]]  # The work that the device was given since the last call.
    settle: Callable[[], None] = lambda: None  # Waits until blocks of finished work have come back.
    device_peak: Callable[[], Optional[int]] = lambda: None  # Bytes in use at most since the last call.
    mark: Callable[[Dict[str, Any]], Any] = lambda stats: None  # The position in the events, by statistics.
    now: Callable[[], float] = time.time


@dataclasses.dataclass
class Failure:
    """An attempt at a step that ran out of memory, from `began` to `ended` (seconds since 1970), and its rows."""

    began: float
    ended: float
    rows: List[Row]


def _add_work(into: Dict[str, Any], more: Dict[str, Any]) -> None:
    """Sums numbers; collectives ([operation, ranks, calls, bytes]) by operation and ranks."""
    for key, value in more.items():
        if isinstance(value, (int, float)):
            into[key] = into.get(key, 0) + value
    if "collectives" in more:
        sums: Dict[Any, List[int]] = {}
        for operation, ranks, calls, size in list(into.get("collectives", [])) + list(more["collectives"]):
            entry = sums.setdefault((operation, ranks), [0, 0])
            entry[0] += calls
            entry[1] += size
        into["collectives"] = [[o, r, calls, size] for (o, r), (calls, size) in sums.items()]


def merge(rows: List[Row], later: List[Row]) -> None:
    """Makes `rows` tell of `later`, too, which followed them directly. Rows are matched by device."""
    by_device = {row["device"]: row for row in rows}
    for part in later:
        row = by_device.get(part["device"])
        if row is None:
            rows.append(part)
            continue
        for key in _PEAKS:
            row[key] = max(row[key] or 0, part[key] or 0)
        for key in _ENDS:
            row[key] = part[key]
        row["seconds"] = round(row["seconds"] + part["seconds"], 6)
        _add_work(row["work"], part["work"])


def fullest(rows: List[Row]) -> int:
    """The device whose peak is highest; the report tells of that one."""
    return max(rows, key=lambda row: (row["peak_allocated"], -row["device"]))["device"] if rows else 0


class PhaseRecorder:
    """Turns events of the program into rows, one per phase and device."""

    def __init__(self, probe: Probe):
        self.rows: List[Row] = []
        self.steps = 0  # Optimizer steps that have ended.
        self.after_row: Callable[[Row], None] = lambda row: None
        self.after_failure: Callable[[], None] = lambda: None  # The program goes on after an error.
        self.after_recovery: Callable[[List[Failure]], None] = lambda failures: None  # It has done a step since.
        self._probe = probe
        self._state = "off"  # off, load, forward, backward, between (backward and step), stepping, after (a step), cleared
        self._micro_batch = 1
        self._made_states = False  # A step before the first forward pass has been seen.
        self._before: Dict[int, int] = {}
        self._since = 0.0
        self._last: List[Row] = []  # The rows of the last phase.
        self._loaded: Optional[List[Row]] = None  # `load` until the last optimizer was made.
        self._begun: List[Row] = []  # The first part of the phase that is open.
        self._attempt = 0  # Index of the first row of the step that is open.
        self._failed_name = ""
        self._before_batch: List[Row] = []  # Peaks of `load` without what was allocated after the last optimizer was made.
        self.failures: List[Failure] = []  # Failures in the open step after which the program went on.
        self._lost_retries: Dict[int, int] = {}  # Retries in failed attempts, by device.

    @property
    def name(self) -> str:
        """The phase that an error would have come from now."""
        names = {"between": "optimizer", "stepping": "optimizer", "after": "end", "cleared": "end", "failed": self._failed_name}
        return names.get(self._state, self._state)

    @property
    def step(self) -> int:
        """The number of the optimizer step that the program works on; the first is 1."""
        return self.steps if self._state in ("after", "cleared") else self.steps + 1

    def start(self) -> None:
        """CUDA is ready."""
        if self._state == "off":
            self._state = "load"
            self._since = self._probe.now()

    def optimizer_made(self) -> None:
        """An optimizer was constructed: loading is over unless much follows."""
        if self._state == "load":
            part = self._cut()
            if self._loaded is None:
                self._loaded = part
            else:
                merge(self._loaded, part)

    def forward(self) -> None:
        """A module is called from outside. A batch that was made before the call belongs to the forward pass."""
        self._go_on("forward")
        if self._state != "load":
            return
        self._probe.settle()
        part = self._cut()
        if self._loaded is None:
            self._emit("load", part)
        elif any(row["peak_allocated"] > _BATCH * row["allocated_before"] for row in part):
            self._before_batch = [{key: row[key] for key in _PEAKS} for row in self._loaded]
            merge(self._loaded, part)
            self._emit("load", self._loaded)
        else:
            self._emit("load", self._loaded)
            self._begun = part
        self._state = "forward"

    def backward_begins(self) -> None:
        """A backward pass that is not inside another one begins."""
        if self._state == "off":
            return
        if self._state in ("load", "failed"):
            self.forward()
        if self._state in ("between", "stepping"):  # No optimizer step since the last one: gradients accumulate.
            self._micro_batch += 1
        self.next_forward()
        self._close("forward", "backward")

    def backward_ends(self) -> None:
        """That backward pass has ended."""
        if self._state == "backward":
            self._close("backward", "between")

    def step_begins(self) -> None:
        """Gradients are about to be clipped, or an optimizer to step. What was only released since the backward pass was the end of that pass;
        if anything was allocated (clipping), it was the beginning of the step."""
        self._go_on("stepping")
        if self._state == "between":
            self._state = "stepping"
            part = self._cut()
            if any(row["peak_allocated"] > row["allocated_before"] for row in part):
                self._begun = part
            else:
                merge(self._last, part)

    def step_ends(self) -> None:
        """An optimizer has updated its parameters."""
        self._go_on("stepping")
        if self._state == "off":
            return
        if self._state == "load" and not self._made_states:
            self._made_states = True  # DeepSpeed makes the optimizer's states so, before there is a gradient.
            return
        if self._state == "after":  # Another optimizer of the same step.
            merge(self._last, self._cut())
            return
        counts = self._state != "cleared"  # Else one more optimizer of a step whose gradients are partly cleared.
        self._close("optimizer", "after")
        self.steps += counts
        self._micro_batch = 1
        self._forget_failures()

    def clearing_begins(self) -> None:
        """Gradients are about to be set to zero or to None. What came since the step (an update of the loss scale, an
        average of parameters) belongs to the step."""
        if self._state == "after":
            merge(self._last, self._cut())

    def clearing_ends(self) -> None:
        """They have been set."""
        if self._state == "after":
            self._close("zero_grad", "cleared")

    def next_forward(self) -> None:
        """A module is called for the first time since the last optimizer step."""
        if self._state in ("after", "cleared"):
            self._state = "forward"

    def fails(self) -> None:
        """Memory has run out in a step. The phase ends here, because the program may catch the error and try again.
        An error before the first forward pass ends nothing: there is no step to try again."""
        if self._state in ("off", "load", "failed"):
            return
        name = "forward" if self.name == "end" else self.name
        rows = self._cut()
        if self._begun:
            merge(self._begun, rows)
            rows, self._begun = self._begun, []
        self._state, self._failed_name = "forward", name
        self._emit(name, rows)
        self._state = "failed"

    def _go_on(self, state: str) -> None:
        """The program has caught the error. If it begins with another forward pass, the whole step was in vain; if it
        calls the optimizer again, only that call was."""
        if self._state != "failed":
            return
        merge(self._last, self._cut())
        if state == "forward" and self._attempt and self.rows[self._attempt - 1]["name"] == "load":
            for row, peaks in zip(self._loaded or [], self._before_batch):
                row.update(peaks)  # This attempt's batch had made `load` larger.
        first = self._attempt if state == "forward" else len(self.rows) - len(self._last)
        began = self.rows[first - 1]["ended"] if first else 0.0
        rows = self.rows[first:]
        for device in {row["device"] for row in rows}:
            before = [row["retries"] for row in self.rows[:first] if row["device"] == device and not row.get("failed")]
            after = [row["retries"] for row in rows if row["device"] == device]
            self._lost_retries[device] = self._lost_retries.get(device, 0) + after[-1] - (before[-1] if before else 0)
        for row in rows:
            row["failed"] = True
        self.failures.append(Failure(began, self._last[0]["ended"] if self._last else began, rows))
        self._state = state
        self._attempt = len(self.rows)
        if state == "forward":
            self._micro_batch = 1
        self.after_failure()

    def _forget_failures(self) -> None:
        """A step has ended: what failed before it is told apart from what ran."""
        if self.failures:
            self.rows = [row for row in self.rows if not row.get("failed")]
            self.after_recovery(self.failures)
            self.failures = []
        self._attempt = len(self.rows)

    def finish(self, failed: bool = False) -> None:
        """The program ends; what is open becomes the last row."""
        if self._state == "off":
            return
        if self._state == "failed":
            merge(self._last, self._cut())
            self._state = "off"
            return
        if self._state == "load" and self._loaded is not None:
            self._begun = self._loaded
        name = "end" if self._state in ("between", "stepping") and not failed else self.name
        self._close(name, "off")
        if name == "end" and all(row["peak_allocated"] == row["allocated_before"] for row in self._last):
            del self.rows[len(self.rows) - len(self._last) :]  # Nothing was allocated after the last step.

    def _close(self, name: str, state: str) -> None:
        """Writes the rows of the phase that ends; `state` begins."""
        self._probe.settle()
        rows = self._cut()
        if self._begun:
            merge(self._begun, rows)
            rows, self._begun = self._begun, []
        self._emit(name, rows)
        self._state = state
        if state in ("after", "cleared"):
            self._attempt = len(self.rows)

    def _emit(self, name: str, rows: List[Row]) -> None:
        for row in rows:
            row.update(name=name, step=self.step, micro_batch=self._micro_batch)
            self.after_row(row)
        if len(self.rows) < _MOST_ROWS:
            self.rows += rows
            if name == "load":
                self._attempt = len(self.rows)
        else:  # A long program: the last rows of this kind tell of the rest.
            same = [row for row in self.rows[-_SEARCHED:] if row["name"] == name]
            merge(same[-len(rows) :] or self.rows[-len(rows) :], rows)
        self._last = rows
        self._since = self._probe.now()

    def _cut(self) -> List[Row]:
        """What happened since the last cut, one row per device."""
        probe = self._probe
        now = probe.now()
        work = probe.work()
        device_peak = probe.device_peak()
        rows = []
        for device in probe.devices():
            stats, peaks = probe.ledger.end_phase(device)
            row: Row = {"device": device, "seconds": round(now - self._since, 6), "work": dict(work), "ended": now}
            row.update(device_peak=device_peak, mark=probe.mark(stats))
            row.update(self._figures(device, stats, peaks))
            self._before[device] = row["allocated_after"]
            rows.append(row)
        self._since = probe.now()
        return rows

    def _figures(self, device: int, stats: Dict[str, Any], peaks: Peaks) -> Dict[str, int]:
        return {
            "allocated_before": self._before.get(device, 0),
            "allocated_after": _current(stats, _ALLOCATED),
            "peak_allocated": peaks.get(_ALLOCATED, 0),
            "reserved_after": _current(stats, _RESERVED),
            "peak_reserved": peaks.get(_RESERVED, 0),
            "requested_after": _current(stats, _REQUESTED),
            "peak_requested": peaks.get(_REQUESTED, 0),
            "retries": stats.get("num_alloc_retries", 0) - self._lost_retries.get(device, 0),
        }
