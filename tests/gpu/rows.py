#!/usr/bin/env python3
"""Runs rows of tests/measured on the GPU of this machine, with real kernels, as validators/torch/measure.py runs cases.

    rows.py OUT.jsonl [--limit N] [--seconds T] [--cudnn] [--only TEXT] [--source NAME,..]

`headroom validate measured OUT.jsonl` compares the lines with predictions: bytes, and `step_seconds` with the time
model (metric `step_time_ms`) where it knows the GPU's name. Rows are taken that ran on one GPU, need only
transformers, and fit. `--cudnn` leaves cuDNN attention on. `--source flash_attention` takes the rows of that file (it
asks for the package flash-attn). Rows that OUT has are skipped.
Needs: PyTorch and transformers in the versions that tests/measured/README.md names.
"""
import argparse
import gzip
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validators" / "torch"))

import measure  # noqa: E402

LONGEST = 45  # Seconds for one row: a few of billions of parameters and many tokens take minutes.


def rows(device_bytes, only, sources):
    for name in sources:
        with gzip.open(ROOT / "tests" / "measured" / f"{name}.jsonl.gz", "rt") as lines:
            for line in lines:
                row = json.loads(line)
                case = row["case"]
                plain = row["framework"] == "transformers" and not any(
                    case.get(key) for key in ("lora", "gpu", "allocator", "task", "eval"))
                if not plain or measure.unknown(case) or only not in row["id"]:
                    continue
                if "phases" in row and max(p["peak_reserved"] for p in row["phases"]) < 0.9 * device_bytes:
                    yield "gpu/" + row["id"], case


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--cudnn", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--source", default="ladder,random")
    options = parser.parse_args()
    measure.import_once()
    total = measure.in_child(measure.device_bytes, 60)
    if total is None:
        print("no GPU: PyTorch finds none", file=sys.stderr)
        sys.exit(4)
    chosen = list(rows(total, options.only, options.source.split(",")))
    chosen = chosen[::max(1, len(chosen) // options.limit)][:options.limit]  # Spread over all rows.
    measure.measure_all(chosen, options.out, options.seconds, LONGEST,
                        lambda name, case: measure.run_case(name, case, options.cudnn))


if __name__ == "__main__":
    main()
