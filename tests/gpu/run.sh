#!/bin/sh
# On a machine with a GPU, PyTorch and transformers: measures rows with real kernels, then kernels alone, and compares.
# run.sh [FOLDER]: results go there (default build/gpu). Measuring ends within ten minutes, each part by itself; every
# line is on disk when it has been measured. What comes after it, the comparison, builds the program first.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
out=${1:-$root/build/gpu}
mkdir -p -- "$out" || exit 1
python3 "$root/tests/gpu/measure.py" "$out/gpu.jsonl" --seconds 170
python3 "$root/tests/gpu/measure.py" "$out/gpu-cudnn.jsonl" --limit 20 --seconds 70 --cudnn
# The package's real kernels, where it is there: the rows were recorded with stand-ins.
if python3 -c 'import flash_attn' 2>/dev/null; then
  python3 "$root/tests/gpu/measure.py" "$out/gpu-flash.jsonl" --limit 30 --seconds 50 --source flash_attention
fi
timeout 270 python3 "$root/tests/gpu/kernels.py" "$out/kernels.jsonl" --seconds 230
# The comparison needs a compiler and a few packages; without them it is made elsewhere.
if HEADROOM_PRESET=headless "$root/run" build; then
  for rows in gpu gpu-cudnn gpu-flash; do
    [ -s "$out/$rows.jsonl" ] || continue
    HEADROOM_PRESET=headless "$root/run" validate measured "$out/$rows.jsonl" --json >"$out/$rows.json"
    HEADROOM_PRESET=headless "$root/run" validate measured "$out/$rows.jsonl"
  done
else
  echo "measured: $out; compare with: ./run validate measured $out" >&2
fi
