"""Reports PyTorch's allocator in each phase of the run, in the form of a dry run's report (docs/dryrun.md)."""
import contextlib
import json
import os
import platform
import sys
import time

import torch

_PACKAGES = ("transformers", "accelerate", "peft", "deepspeed", "bitsandbytes", "liger_kernel")


def allocator_figures(stats):
    """The figures of a phase that `torch.cuda.memory_stats()` has at its end."""
    return {"allocated_after": stats["allocated_bytes.all.current"],
            "peak_allocated": stats["allocated_bytes.all.peak"],
            "reserved_after": stats["reserved_bytes.all.current"],
            "peak_reserved": stats["reserved_bytes.all.peak"],
            "requested_after": stats.get("requested_bytes.all.current", 0),
            "peak_requested": stats.get("requested_bytes.all.peak", 0),
            "retries": stats["num_alloc_retries"]}


class Unobserved:
    """Phases of a run that somebody else observes."""

    def __call__(self, name, step=0, micro_batch=1):
        return contextlib.nullcontext()


class Phases:
    """Keeps the books. The GPU is idle at both ends of a phase, so that its peaks and seconds are its own."""

    def __init__(self):
        self.rows = []
        self.oom = None
        self._at = ("load", 0)
        torch._C._cuda_attach_out_of_memory_observer(self._out_of_memory)

    @contextlib.contextmanager
    def __call__(self, name, step=0, micro_batch=1):
        self._at = (name, step)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before, begun = torch.cuda.memory_allocated(), time.perf_counter()
        try:
            yield
            torch.cuda.synchronize()
        finally:
            self.rows.append({
                "name": name, "step": step, "micro_batch": micro_batch, "allocated_before": before,
                **allocator_figures(torch.cuda.memory_stats()), "seconds": time.perf_counter() - begun})

    def _out_of_memory(self, device, requested, total, free):
        stats = torch.cuda.memory_stats(device)
        self.oom = {"requested": requested, "free": free, "capacity": total,
                    "allocated": stats["allocated_bytes.all.current"],
                    "reserved": stats["reserved_bytes.all.current"], "phase": self._at[0], "step": self._at[1],
                    "stack": [], "live": []}

    def report(self, stopped, step_seconds, exception=None):
        """The report of this process."""
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        free, total = torch.cuda.mem_get_info()
        result = {
            "version": 1, "pid": os.getpid(), "argv": sys.argv, "rank": _number("RANK"), "world": _number("WORLD_SIZE"),
            "versions": versions(), "device": {"name": properties.name, "bytes": total}, "phases": self.rows,
            "stopped": stopped, "guesses": [], "refused": [], "host": {"rss_peak": 0, "pinned_peak": 0},
            "step_seconds": step_seconds, "outside_bytes": total - free - torch.cuda.memory_reserved()}
        if self.rows:
            fullest = max(range(len(self.rows)), key=lambda i: self.rows[i]["peak_allocated"])
            reserved = max(row["peak_reserved"] for row in self.rows)
            result["peak"] = {"phase": fullest, "allocated": self.rows[fullest]["peak_allocated"], "reserved": reserved,
                              "device": reserved + result["outside_bytes"], "live": []}
        if self.oom and exception is not None:
            result["oom"] = self.oom
        if exception is not None:
            result["exception"] = {"type": type(exception).__name__, "message": str(exception)[:2000], "where": ""}
        return result


def versions():
    """Versions of Python, PyTorch, CUDA and the packages that are loaded."""
    found = {"python": platform.python_version(), "torch": str(torch.__version__), "cuda": str(torch.version.cuda or "")}
    for name in _PACKAGES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def _number(variable):
    return int(os.environ[variable]) if variable in os.environ else None


def write_report(folder, report):
    """Writes the report under another name first, so that nobody reads half of it."""
    path = os.path.join(folder, f"{report['rank'] or 0}-{os.getpid()}.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace(path + ".part", path)
