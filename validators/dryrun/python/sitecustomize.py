"""Starts the dry run's observation in every Python process of the user's program.

Python imports this file at its start, because `headroom dryrun` puts its folder in front of PYTHONPATH. The
sitecustomize that it shadows (Debian's, the user's) runs first. Without HEADROOM_DRYRUN_DIR nothing else happens.
"""

import os
import sys


def _run_shadowed() -> None:
    """Runs the sitecustomize that would have been found without this folder."""
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


try:
    _run_shadowed()
finally:  # An error of the shadowed file is shown by Python's own `site`, as it would be without this folder.
    if os.environ.get("HEADROOM_DRYRUN_DIR"):
        try:
            import headroom_dryrun

            headroom_dryrun.start()
        except Exception as error:  # The user's program must run whatever happens here.
            print(f"headroom: the dry run observes nothing in this process: {error!r}", file=sys.stderr)
