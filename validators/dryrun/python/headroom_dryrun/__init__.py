"""Observation of a dry run: what PyTorch's allocator does in each phase of an unchanged training program.

`start` is called at the start of Python by `sitecustomize.py`. It imports nothing of the user's: hooks are put into
modules when the user's program imports them, so a program without PyTorch costs nothing and writes nothing.
"""

import os
from typing import Optional

from . import imports
from .settings import Settings

_session = None  # The one Session of this process.


def start(settings: Optional[Settings] = None) -> None:
    """Prepares this process: environment of its rank, then hooks for the modules that matter."""
    global _session
    if _session is not None:
        return
    from . import session, world

    settings = settings or Settings.from_environment()
    if os.environ.get("TORCH_CUDNN_SDPA_PREFERRED") == "0":  # PyTorch 2.6 and later ask for it by another name.
        os.environ.setdefault("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
    world.set_rank_variables(settings)
    _session = session.Session(settings)
    imports.install(session.watched_modules(_session), _session.report_failure)


def current_session():
    """The session of this process, or None before `start`."""
    return _session
