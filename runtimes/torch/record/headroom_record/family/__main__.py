"""python -m headroom_record.family CONFIG -o FILE: writes the recording of a family."""

import argparse
import gc
import json
import os
import sys
import time
import warnings
from typing import Any, Dict

from ..image_text import Images
from ..merge import Different


def _text(arguments: argparse.Namespace) -> str:
    from . import record

    if arguments.gathered and os.path.exists(arguments.gathered):
        with open(arguments.gathered, encoding="utf-8") as file:
            return record.join(json.load(file))
    with open(arguments.source, encoding="utf-8") as file:
        fields = json.load(file)

    def keep(found: Dict[str, Any]) -> None:
        if arguments.gathered:
            with open(arguments.gathered, "w", encoding="utf-8") as file:
                json.dump(found, file)

    images = Images(arguments.images) if arguments.images else None
    return record.recorded(fields.get("config", fields), arguments.count, arguments.seed,
                           [key for key in arguments.fixed.split(",") if key], keep, arguments.level, arguments.task,
                           images)


def main() -> int:
    parser = argparse.ArgumentParser(prog="headroom_record.family", description=__doc__)
    parser.add_argument("source", help="config.json of one model of the family")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--count", type=int, default=6, help="configurations that are recorded; the last one checks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fixed", default="", help="keys that keep their value, separated by commas, where other "
                                                    "values lead to other code at some sizes only")
    parser.add_argument("--level", type=int, default=0, choices=range(-1, 4),
                        help="how little varies (Explorer.narrow); -1 varies the dimensions of towers, too")
    parser.add_argument("--task", choices=("masked-lm", "seq2seq-lm", "speech-seq2seq", "sequence-classification",
                                           "token-classification"), help="another head than the usual one")
    parser.add_argument("--images", help="also with images whose number varies: those of the first configuration, "
                                         "COUNTxHEIGHTxWIDTH")
    parser.add_argument("--gathered", help="file that keeps what the model's code said; if it is there, no code runs")
    arguments = parser.parse_args()
    gc.disable()
    warnings.filterwarnings("ignore")
    start = time.time()
    try:
        text = _text(arguments)
    except Different as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"recorded in {time.time() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
