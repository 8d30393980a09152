"""python -m headroom_record.family CONFIG -o FILE: writes the recording of a family."""

import argparse
import gc
import json
import sys
import time
import warnings


def main() -> int:
    parser = argparse.ArgumentParser(prog="headroom_record.family", description=__doc__)
    parser.add_argument("source", help="config.json of one model of the family")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--count", type=int, default=6, help="configurations that are recorded; the last one checks")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    gc.disable()
    warnings.filterwarnings("ignore")
    with open(arguments.source, encoding="utf-8") as file:
        fields = json.load(file)

    from ..merge import Different
    from . import record

    start = time.time()
    try:
        text = record.record(fields.get("config", fields), arguments.count, arguments.seed)
    except Different as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"recorded in {time.time() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
