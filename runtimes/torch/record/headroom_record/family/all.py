"""python -m headroom_record.family.all FOLDER: records every family of transformers that has no recording in FOLDER.

For a new release of transformers: PyTorch and transformers are imported once, and each family is recorded in a
process of its own. Several of these programs may share one folder. FOLDER/TYPE.log says what happened.
"""

import argparse
import gc
import json
import os
import signal
import sys
import traceback
import warnings
from typing import Any, Dict, List

from .record import LAST


def types() -> List[str]:
    """The model types that transformers trains as language models, those that generate text first."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM, \
        AutoModelForSeq2SeqLM

    found: Dict[str, None] = {}
    for kind in (AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForMaskedLM, AutoModelForImageTextToText):
        found.update(dict.fromkeys(sorted(config.model_type for config in kind._model_mapping.keys())))
    return list(found)


def _record(fields: Dict[str, Any], path: str, limit: int, level: int) -> bool:
    """Whether the family was recorded to PATH.json, in a process of its own that may take `limit` seconds."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        _child(fields, f"{path}.json", f"{path}.log", limit, level)
    _, status = os.waitpid(process, 0)
    return status == 0


def _child(fields: Dict[str, Any], output: str, log: str, limit: int, level: int) -> None:
    """Records one family, in a new process: what its code breaks or leaves behind ends with it."""
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    signal.alarm(limit)
    gc.disable()
    status = 1
    try:
        from . import record

        text = record.recorded(fields, level=level)
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)
        status = 0
    except BaseException:  # The model's own code may raise anything, SystemExit too.
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _claim(path: str) -> bool:
    """Whether this program is the first that asks for `path`."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="headroom_record.family.all", description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--bases", help="JSON: for each type the fields of a config.json that is recorded in place of the "
                                        "defaults, which some types cannot be built from")
    parser.add_argument("--types", help="only these, separated by commas")
    parser.add_argument("--without", default="", help="types that are left out, separated by commas")
    parser.add_argument("--limit", type=int, default=900, help="seconds for one family")
    parser.add_argument("--level", type=int, default=0, choices=range(LAST + 1),
                        help=f"how much is left out: at 0 as many keys vary as the code lets, at {LAST} none")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    bases: Dict[str, Any] = {}
    if arguments.bases:
        with open(arguments.bases, encoding="utf-8") as file:
            bases = json.load(file)
    wanted = arguments.types.split(",") if arguments.types else types()
    from . import explore  # noqa: F401  Imports what every process needs.

    for name in wanted:
        path = os.path.join(arguments.folder, name)
        if name in arguments.without.split(",") or os.path.exists(f"{path}.json") or not _claim(f"{path}.lock"):
            continue
        fields = bases.get(name, {}).get("config", {"model_type": name})
        # What fails or takes longer than the limit is tried in its one configuration.
        if os.path.exists(f"{path}.log"):
            os.remove(f"{path}.log")
        done = next((level for level in dict.fromkeys((arguments.level, LAST))
                     if _record(fields, path, arguments.limit, level)), None)
        print(f"{name}: not recorded, see {path}.log" if done is None else
              f"{name}: recorded{', one configuration' if done == LAST else ''}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
