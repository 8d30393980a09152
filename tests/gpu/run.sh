#!/bin/sh
# On a machine with a GPU, PyTorch and transformers: measures rows with real kernels and compares, then kernels alone.
# run.sh [FOLDER]: results go there (default build/gpu). Ends within about ten minutes.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
out=${1:-$root/build/gpu}
mkdir -p -- "$out"
python3 "$root/tests/gpu/measure.py" "$out/gpu.jsonl" --seconds 200
python3 "$root/tests/gpu/measure.py" "$out/gpu-cudnn.jsonl" --limit 20 --seconds 90 --cudnn
python3 "$root/tests/gpu/kernels.py" "$out/kernels.jsonl" --seconds 240
# The comparison needs a compiler and a few packages; without them it is made elsewhere.
if HEADROOM_PRESET=headless "$root/run" build; then
  for rows in gpu gpu-cudnn; do
    HEADROOM_PRESET=headless "$root/run" validate measured "$out/$rows.jsonl" --json >"$out/$rows.json"
    HEADROOM_PRESET=headless "$root/run" validate measured "$out/$rows.jsonl"
  done
else
  echo "measured: $out; compare with: ./run validate measured $out" >&2
fi
