"""Finds the code under test and runs small programs under the observer, with the torch package in fake/."""

import glob
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
OBSERVER = os.path.normpath(os.path.join(HERE, "..", "..", "..", "validators", "dryrun", "python"))
FAKE = os.path.join(HERE, "fake")
if OBSERVER not in sys.path:
    sys.path.append(OBSERVER)  # Behind the rest: its sitecustomize is not to be run by the tests.


def _read(path: str) -> Dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run(program: str, *paths: str, **variables: Optional[str]) -> Tuple[subprocess.CompletedProcess, List[Dict[str, Any]]]:
    """Runs `program` as a user's script would be run; returns the process and its reports."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADROOM_") and k != "LD_PRELOAD"}
        environment.update(PYTHONPATH=os.pathsep.join([OBSERVER, FAKE, *paths]), PYTHONDONTWRITEBYTECODE="1")
        environment.update({"HEADROOM_DRYRUN_DIR": folder, **variables})
        environment = {k: v for k, v in environment.items() if v is not None}
        process = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
        return process, [_read(path) for path in sorted(glob.glob(os.path.join(folder, "*.json")))]
