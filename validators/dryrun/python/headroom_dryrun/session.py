"""One process of the dry run: which modules are watched, what is kept, when it stops, what is reported."""

import atexit
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from typing import Any, Callable, Dict, List, Optional

from . import frames, frameworks, launchers, processes, report, values, world
from .categories import Categories
from .device import Device
from .history import History, live_rows
from .peaks import PeakLedger
from .phases import Failure, PhaseRecorder, Probe
from .recording import Recording
from .settings import Settings
from .torch_hooks import TorchHooks

# NCCL's watchdog releases the blocks of finished works every 100 ms (kWatchdogThreadSleepMillis in
# torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp). A step on a real GPU is longer than that; a dry one is not.
NCCL_PAUSE = 0.25  # Seconds.
# Libraries that do not start without a real driver, by the words of PyTorch's error.
_LEFT_OUT = {
    "cufft error": "a dry run has no cuFFT, so torch.fft does not run on the GPU",
    "cusolver error": "a dry run has no cuSOLVER, so torch.linalg does not run on the GPU",
}


def explained(message: str) -> str:
    """An error's message; if a library is missing that a dry run does not have, with a sentence that says so."""
    found = [sentence for words, sentence in _LEFT_OUT.items() if words in message.lower()]
    return f"{message} ({found[0]})" if found else message


def watched_modules(session: "Session") -> Dict[str, List[Callable[[Any], None]]]:
    """Hooks by the name of the module after whose import they run."""
    hooks: Dict[str, List[Callable[[Any], None]]] = {"torch": [session.attach]}
    for table in (frameworks.hooks(session), launchers.hooks(session), values.hooks(session), world.hooks(session)):
        for name, functions in table.items():
            hooks.setdefault(name, []).extend(functions)
    return hooks


class Session:
    """Everything that the dry run knows about this process."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.guesses = report.Guesses()
        self.program: Dict[str, Any] = {}
        self.batch: List[int] = []  # Shape of the first tensor of the forward pass that was recognised.
        self.oom: Optional[Dict[str, Any]] = None
        self._attempts: List[Dict[str, Any]] = []  # Errors after which the program went on, but has done no step yet.
        self.caught: List[Dict[str, Any]] = []  # Errors after which the program has done a step.
        self.exception: Optional[Dict[str, str]] = None
        self.categories = Categories(keeps_all=settings.record)
        self.torch: Any = None
        self.phases: Optional[PhaseRecorder] = None
        self.history: Optional[History] = None
        self.recording: Optional[Recording] = None
        self.device: Optional[Device] = None
        self.done = False
        self._failures: set = set()
        self._pid = os.getpid()

    # Start

    def attach(self, torch: Any) -> None:
        """PyTorch has been imported: everything that does not need a GPU is put in."""
        if not hasattr(torch, "cuda") or not hasattr(torch._C, "_cuda_memoryStats"):
            return  # A build for CPUs only: the launcher sees that no report came.
        self.torch = torch
        self.device = Device()
        processes.keep_preload_from_compilers()
        self._share_peaks(torch)
        TorchHooks(self).install()
        values.install(self)
        torch.cuda._lazy_call(self._cuda_is_ready)
        atexit.register(self.finish, "end")
        os.register_at_fork(after_in_child=self._forked)
        self._watch_exceptions()

    def _share_peaks(self, torch: Any) -> None:
        c = torch._C
        ledger = PeakLedger(c._cuda_memoryStats, c._cuda_resetPeakMemoryStats)
        c._cuda_memoryStats = ledger.user_stats
        c._cuda_resetPeakMemoryStats = ledger.user_reset
        if hasattr(c, "_accelerator_getDeviceStats") and hasattr(c, "_accelerator_resetPeakStats"):
            c._accelerator_getDeviceStats = ledger.user_stats
            c._accelerator_resetPeakStats = ledger.user_reset
        self._read = ledger._read
        probe = Probe(ledger, self._used_devices, self.device.work, self._settle, self.device.take_peak)
        if self.settings.record:
            self.recording = Recording(ledger._read, self._used_devices)
            self.recording.watch(torch)
            probe.mark = self.recording.mark
        self.phases = PhaseRecorder(probe)
        self.phases.after_row = self._after_row
        self.phases.after_failure = self._after_failure
        self.phases.after_recovery = self._after_recovery

    def _cuda_is_ready(self) -> None:
        """Runs at the end of torch.cuda's own start."""
        try:
            self.history = History(self.torch.cuda.memory, self.recording)
            self.history.start()
            self._watch_memory()
            self._watch_signal()
            self.phases.start()
        except Exception as error:
            self.report_failure("start of CUDA", error)

    def _forked(self) -> None:
        """A child made by fork (a worker of a DataLoader) is not the program."""
        self.done = True

    # While the program runs

    def _used_devices(self) -> List[int]:
        count = self.torch.cuda.device_count()
        current = self.torch.cuda.current_device()
        used = [d for d in range(count) if self._reserved(d) > 0]
        return used or [current]

    def _reserved(self, device: int) -> int:
        return self._read(device).get("reserved_bytes", {}).get("all", {}).get("peak", 0)

    def _has_allocated(self) -> bool:
        return any(self._reserved(device) for device in self._used_devices()) or self.oom is not None

    def _settle(self) -> None:
        """Gives NCCL's watchdog the time that a real step would have given it."""
        if world.has_nccl_group():
            time.sleep(NCCL_PAUSE)

    def _after_row(self, row: Dict[str, Any]) -> None:
        stats = self._read(row["device"])
        self.history.after_phase(row["device"], stats["allocation"]["all"]["allocated"])

    def guess(self, what: str, where: str = "") -> None:
        """Notes that a value was made up."""
        self.guesses.add(what, where)

    def report_failure(self, where: str, error: BaseException) -> None:
        """Notes once that a hook of ours failed; the program goes on without it."""
        key = f"{where}: {type(error).__name__}: {error}"
        if key not in self._failures:
            self._failures.add(key)
            self.guesses.add(f"A hook of the dry run failed and was left out ({key})", where)
            if os.environ.get("HEADROOM_DRYRUN_DEBUG"):
                traceback.print_exception(type(error), error, error.__traceback__)

    def step_ended(self) -> None:
        """Stops the program when it has done its steps."""
        limit = self.settings.steps
        if limit and self.phases.steps >= limit:
            self.stop()

    # Errors

    def _watch_memory(self) -> None:
        attach = getattr(self.torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:
            attach(self._out_of_memory)

    def _out_of_memory(self, device: int, requested: int, capacity: int, free: int) -> None:
        """The allocator is about to raise OutOfMemoryError."""
        if self.done:
            return
        try:
            stats = self._read(device)
            self.categories.see_modules(self.torch.nn.Parameter, int(time.time() * 1e6))
            blocks = self.history.live(device)
            phase = self.phases.name
            allocated = stats["allocated_bytes"]["all"]["current"]
            self.oom = {
                "requested": requested,
                "free": free,
                "capacity": capacity,
                "allocated": allocated,
                "reserved": stats["reserved_bytes"]["all"]["current"],
                "phase": phase,
                "step": self.phases.step,
                "stack": frames.stack(self._python_stack()),
                "live": live_rows(blocks, lambda b: self.categories.of(b, phase), allocated),
            }
            if self.settings.snapshot:
                self.history.dump(self.settings.snapshot)
            self.phases.fails()
            self.torch_hooks.await_forward()
        except Exception as error:
            self.report_failure("out of memory", error)

    def _after_failure(self) -> None:
        """The program has caught an error and begins again: with what, its next forward pass will show."""
        if self.oom is None:
            return
        failed = {key: self.oom[key] for key in ("requested", "free", "allocated", "reserved", "phase", "step")}
        failed["where"] = self.oom["stack"][0] if self.oom["stack"] else ""
        failed["batch"] = self.batch
        self._attempts.append(failed)

    def _after_recovery(self, failures: List[Failure]) -> None:
        """A step has ended: what was alive in the attempts before it is not what this program needs."""
        self.history.leave_out([(round(f.began * 1e6), round(f.ended * 1e6)) for f in failures])

    def _python_stack(self) -> traceback.StackSummary:
        """Of this thread; of the main thread if a thread of autograd asked."""
        here = traceback.extract_stack()
        if threading.current_thread() is threading.main_thread():
            return here
        main = sys._current_frames().get(threading.main_thread().ident)
        return traceback.extract_stack(main) if main is not None else here

    def survived_memory_error(self) -> None:
        """A step has ended after an out-of-memory error: the program caught it."""
        if self.oom is None:
            return
        if not self._attempts:  # An error before the first forward pass, which is no attempt at a step.
            self._after_failure()
        self.caught += self._attempts
        self._attempts = []
        self.oom = None

    def _watch_exceptions(self) -> None:
        before = sys.excepthook

        def hook(kind, error, trace):
            try:
                lines = frames.stack(traceback.extract_tb(trace))
                where = lines[0] if lines else ""
                self.exception = {"type": kind.__name__, "message": explained(str(error)[:2000]), "where": where}
            except Exception as failure:
                self.report_failure("exception", failure)
            before(kind, error, trace)

        sys.excepthook = hook

    def _watch_signal(self) -> None:
        """SIGTERM writes the report, then does what it would have done."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            return

        def terminate(number, frame):
            self.finish("signal")
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, terminate)

    # End

    def stop(self) -> None:
        """Ends the process after its last step; its exit code is 0."""
        self.finish("steps")
        processes.end_children()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        weakref.finalize._exitfunc()  # Temporary folders of the program are removed, as at its end.
        os._exit(0)

    def finish(self, stopped: str) -> None:
        """Writes the report, once, if this process used CUDA."""
        if self.done or os.getpid() != self._pid or self.phases is None or self.phases.name == "off":
            return
        self.done = True
        try:
            if self.exception and stopped == "end":
                stopped = "signal" if self.exception["type"] == "KeyboardInterrupt" else "exception"
            if not self._has_allocated():
                return  # A compiler's worker, a launcher: it only looked for a GPU.
            self.phases.finish(failed=stopped == "exception")
            if self.settings.snapshot and not (self.oom and os.path.exists(self.settings.snapshot)):
                self.history.dump(self.settings.snapshot)
        except Exception as error:
            self.report_failure("end", error)
        report.write(self, stopped)
