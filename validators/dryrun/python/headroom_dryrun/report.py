"""The report of a process: one JSON file, written under another name first and then renamed."""

import collections
import json
import os
import platform
import sys
from typing import Any, Dict, List, Optional, Tuple

from . import recording
from .history import live_rows
from .phases import fullest

_INNER = ("device", "ended", "failed", "device_peak", "mark")  # Keys of a row that are no part of a report.
_PACKAGES = ("transformers", "accelerate", "peft", "deepspeed", "bitsandbytes", "liger_kernel", "megatron", "torchtitan")


class Guesses:
    """Values that were made up: what, where, how often."""

    def __init__(self) -> None:
        self._times: Dict[Tuple[str, str], int] = collections.Counter()

    def add(self, what: str, where: str = "", times: int = 1) -> None:
        """Counts one more guess."""
        self._times[(what, where)] += times

    def rows(self) -> List[Dict[str, Any]]:
        """In the order in which they came first."""
        return [{"what": what, "times": n, "where": where} for (what, where), n in self._times.items()]


def _versions(torch: Any) -> Dict[str, str]:
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    found["cuda"] = str(getattr(torch.version, "cuda", None) or "")
    for name in _PACKAGES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def _device(torch: Any, index: int) -> Dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    return {"name": properties.name, "bytes": properties.total_memory}


def _rank() -> Tuple[Optional[int], Optional[int]]:
    """Rank and world of this process as its framework reads them."""
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return None, None


def _peak(session: Any, rows: List[Dict[str, Any]], everything: List[Dict[str, Any]], device: int, state: Dict[str, Any]) -> Dict[str, Any]:
    index = max(range(len(rows)), key=lambda i: rows[i]["peak_allocated"])
    allocated = rows[index]["peak_allocated"]
    peak = {
        "phase": index,
        "allocated": allocated,
        "reserved": max(row["peak_reserved"] for row in rows),
        "device": max((row["device_peak"] for row in everything if row["device_peak"]), default=state.get("device_peak")),
        "live": [],
    }
    point = session.history.digest(device)
    if point is not None:
        phase = next((r for r in rows if point.time <= r["ended"] * 1e6), rows[index])
        peak["live"] = live_rows(point.live, lambda b: session.categories.of(b, phase["name"]), allocated)
    if peak["device"] is None:
        peak["device"] = peak["reserved"]
    return peak


def _host(state: Dict[str, Any]) -> Dict[str, Any]:
    try:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): ru_maxrss is in kilobytes on Linux.
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    except (ImportError, OSError):
        rss = 0
    return {"rss_peak": rss, "pinned_peak": state.get("pinned_peak", 0)}


def build(session: Any, stopped: str) -> Dict[str, Any]:
    """The report as the contract of the dry run has it."""
    torch = session.torch
    state = session.device.state()
    for what, times in state.get("guesses", []):
        session.guesses.add(what, "", times)
    rank, world = _rank()
    everything = session.phases.rows
    device = fullest(everything)
    rows = [row for row in everything if row["device"] == device]
    used = sorted({row["device"] for row in everything})
    if len(used) > 1:
        session.guess(f"This process uses devices {used}; the report tells of device {device}, the fullest")
    result: Dict[str, Any] = {
        "version": 1,
        "pid": os.getpid(),
        "argv": list(getattr(sys, "orig_argv", sys.argv)),
        "rank": rank,
        "world": world,
        "versions": _versions(torch),
        "device": _device(torch, device),
        "phases": [{k: v for k, v in row.items() if k not in _INNER} for row in rows],
        "stopped": stopped,
        "refused": [{"function": name, "times": n} for name, n in state.get("refused", [])],
        "host": _host(state),
    }
    if rows:
        result["peak"] = _peak(session, rows, everything, device, state)
    for key in ("oom", "caught", "exception", "program"):
        if getattr(session, key):
            result[key] = getattr(session, key)
    result["guesses"] = session.guesses.rows()
    return result


def write(session: Any, stopped: str) -> None:
    """Writes the report; an error is said on stderr and goes no further."""
    try:
        content = build(session, stopped)
        name = f"{content['rank'] if content['rank'] is not None else 0}-{os.getpid()}.json"
        path = os.path.join(session.settings.folder, name)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(path + ".part", path)
        if session.recording is not None:
            recording.write(path[: -len(".json")] + ".program", session.recording.program(session))
    except Exception as error:
        print(f"headroom: the report of the dry run could not be written: {error!r}", file=sys.stderr)
