#!/bin/sh
# On a machine with a GPU, PyTorch and transformers: measures rows with real kernels, then kernels alone, and compares.
# run.sh [FOLDER]: results go there (default build/gpu); every line is on disk when it has been measured.
# PARTS chooses, each part ends by itself: rows (170 s), cudnn (70 s), flash (50 s; flash-attn), frameworks (400 s;
# bitsandbytes, Liger, DeepSpeed, torchtitan, as far as they are there), kernels (270 s), executor (60 s, after a build;
# nvcc), compare (builds the program).
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
out=${1:-$root/build/gpu}
mkdir -p -- "$out" || exit 1
wants() { case " ${PARTS:-rows cudnn flash frameworks kernels executor compare} " in *" $1 "*) ;; *) return 1 ;; esac }

wants rows && python3 "$root/tests/gpu/measure.py" "$out/gpu.jsonl" --seconds 170
wants cudnn && python3 "$root/tests/gpu/measure.py" "$out/gpu-cudnn.jsonl" --limit 20 --seconds 70 --cudnn
# The package's real kernels: the rows were recorded with stand-ins.
if wants flash && python3 -c 'import flash_attn' 2>/dev/null; then
  python3 "$root/tests/gpu/measure.py" "$out/gpu-flash.jsonl" --limit 30 --seconds 50 --source flash_attention
fi
wants frameworks && python3 "$root/tests/gpu/frameworks.py" "$out/gpu-frameworks.jsonl" --seconds 400
wants kernels && timeout 270 python3 "$root/tests/gpu/kernels.py" "$out/kernels.jsonl" --seconds 230
# The plugin for CUDA against the CPU backend, and plans that fit into this GPU.
if wants executor; then
  build=$root/build/headless
  if HEADROOM_PRESET=headless "$root/run" build tests && [ -x "$build/tests/gpu/executor/executor_cuda_test" ]; then
    "$build/tests/gpu/executor/executor_cuda_test" --plans 20 >"$out/executor.txt" 2>&1
    echo "exit code $?" >>"$out/executor.txt"
    tail -n 30 "$out/executor.txt"
  else
    echo "executor: left out (no build, or no nvcc)" >&2
  fi
fi
wants compare || exit 0
# The comparison needs a compiler and a few packages; without them it is made elsewhere.
if HEADROOM_PRESET=headless "$root/run" build; then
  for rows in gpu gpu-cudnn gpu-flash gpu-frameworks; do
    [ -s "$out/$rows.jsonl" ] || continue
    HEADROOM_PRESET=headless "$root/run" validate measured "$out/$rows.jsonl" --json >"$out/$rows.json"
    HEADROOM_PRESET=headless "$root/run" validate measured "$out/$rows.jsonl"
  done
else
  echo "measured: $out; compare with: ./run validate measured $out" >&2
fi
