"""Processes that the program starts: compilers, workers."""

import os
import subprocess
import sys

# Programs that Triton, Inductor and extension builds start. They have no use for a GPU.
_COMPILERS = ("gcc", "g++", "cc", "c++", "clang", "clang++", "nvcc", "ptxas", "cuobjdump", "nvdisasm", "ninja", "ld", "as")


def _is_compiler(arguments) -> bool:
    if isinstance(arguments, (list, tuple)) and arguments:
        arguments = arguments[0]
    if isinstance(arguments, bytes):
        arguments = os.fsdecode(arguments)
    words = str(arguments).split()
    name = os.path.basename(words[0]) if words else ""
    return name in _COMPILERS or name.startswith(("x86_64-linux-gnu-", "aarch64-linux-gnu-"))


def keep_preload_from_compilers() -> None:
    """Starts compilers without LD_PRELOAD: the stand-in libraries would be loaded into each of them."""
    original = subprocess.Popen.__init__

    def init(self, args, *rest, **kwargs):
        if os.environ.get("LD_PRELOAD") and _is_compiler(args):
            environment = dict(kwargs.get("env") or os.environ)
            environment.pop("LD_PRELOAD", None)
            if len(rest) < 10:  # `env` is the eleventh parameter; whoever passes it by place keeps it.
                kwargs["env"] = environment
        original(self, args, *rest, **kwargs)

    subprocess.Popen.__init__ = init


def end_children() -> None:
    """Ends the workers of multiprocessing, which would have been ended at the exit of Python."""
    module = sys.modules.get("multiprocessing")
    if module is None:
        return
    for child in module.active_children():
        child.terminate()
