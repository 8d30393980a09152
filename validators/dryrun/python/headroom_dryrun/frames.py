"""Which line of a Python stack says something to the person who wrote the program."""

import dis
import functools
import inspect
import os
import sys
from typing import Any, Dict, Iterable, List, Sequence

_OURS = os.path.dirname(os.path.abspath(__file__))
# Parts of torch whose own allocations are worth naming: they hold states, shards and buckets.
_NAMED_PARTS = ("/torch/optim/", "/torch/distributed/fsdp/", "/torch/distributed/_composable/", "/clip_grad.py")

# Decorators and wrappers of libraries: the line that they call says more.
_WRAPPERS = ("/deepspeed/utils/nvtx.py", "/transformers/utils/generic.py", "/transformers/utils/output_capturing.py")


def short(filename: str) -> str:
    """`filename` without what stands before the package."""
    for mark in ("site-packages/", "dist-packages/"):
        if mark in filename:
            return filename.split(mark)[-1]
    here = os.getcwd() + os.sep
    return filename[len(here) :] if filename.startswith(here) else filename


@functools.lru_cache(maxsize=None)
def is_library(filename: str) -> bool:
    """Whether a frame of `filename` only passes on what a line further out asked for."""
    if filename.startswith(_OURS) or filename.startswith("<") or not filename.endswith(".py"):
        return True
    if any(part in filename for part in _NAMED_PARTS):
        return False
    if filename.endswith(_WRAPPERS):
        return True
    return "/torch/" in filename or "/lib/python3" in filename and "-packages/" not in filename


def describe(frames: Sequence[Dict[str, Any]]) -> str:
    """One frame of `frames` (innermost first) as "file:line function"."""
    if not frames:
        return "(no Python frame: autograd's threads or a library)"
    chosen = next((frame for frame in frames if not is_library(frame["filename"])), frames[0])
    return f"{short(chosen['filename'])}:{chosen['line']} {chosen['name']}"


def stack(summary: Iterable[Any]) -> List[str]:
    """A traceback.StackSummary (outermost first) as lines "file:line function", innermost first.

    Frames that only pass on what a line further out asked for are left out, unless there are no others."""
    found = [f for f in summary if not f.filename.startswith(_OURS)][::-1]
    chosen = [f for f in found if not is_library(f.filename)] or found
    return [f"{short(f.filename)}:{f.lineno} {f.name}" for f in chosen]


def local_variables(frame: Any) -> Dict[str, Any]:
    """The variables of a function's frame, without effect on how long its tensors live.

    Before Python 3.13 a frame keeps the dictionary that it once handed out, and with it every tensor. So that one is
    emptied; the variables themselves are stored elsewhere. Under a debugger it would be written back."""
    if frame is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED or sys.gettrace() is not None:
        return {}
    shown = frame.f_locals
    found = dict(shown)
    if isinstance(shown, dict):
        shown.clear()
    return found


def is_asserting(frame: Any) -> bool:
    """Whether `frame` asks for the truth of a value in an `assert`, and a false one would raise the error."""
    return frame is not None and frame.f_lasti in _asserted_jumps(frame.f_code)


@functools.lru_cache(maxsize=4096)
def _asserted_jumps(code: Any) -> frozenset:
    """Where the instructions of `code` begin that test a value and raise an AssertionError if it is false.

    The error follows a jump over it (`assert a`), or is where a jump goes (the first test of `assert a and b`). Since
    Python 3.13 the instruction before the jump asks for the truth: TO_BOOL, or the comparison itself."""
    instructions = list(dis.get_instructions(code))
    raising = {i.offset for i in instructions if i.opname == "LOAD_ASSERTION_ERROR" or i.argrepr == "AssertionError"}
    found = set()
    for at, jump in enumerate(instructions[:-1]):
        if "JUMP" not in jump.opname:
            continue
        if "IF_TRUE" in jump.opname and instructions[at + 1].offset in raising or (
            "IF_FALSE" in jump.opname and jump.argval in raising
        ):
            found.add(jump.offset)
            if at and instructions[at - 1].opname in ("TO_BOOL", "COMPARE_OP"):
                found.add(instructions[at - 1].offset)
    return frozenset(found)
