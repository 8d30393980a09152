#!/bin/sh
# On a machine with a GPU: measures with real kernels, and compares with what is predicted and with the CPU.
# run.sh [FOLDER]: results go there (default build/gpu). Every line is on disk when it has been measured, and what is
# there is not measured again, so that the same command goes on after an interruption.
# PARTS chooses; each part ends by itself:
#   executor    the plugin for CUDA against the CPU backend, then `headroom validate` of whole plans   (5 min)
#   calibrate   `headroom calibrate`, and the plans of `executor` predicted with its file                 (2 min)
#   plans       `headroom validate --with torch` of tests/real/plans.txt                 (5 min; PyTorch)
#   cases       the cases of cases.jsonl                                                 (8 min; PyTorch)
#   rows cudnn flash frameworks   rows of tests/measured         (170 s, 70 s, 50 s, 400 s; PyTorch and the packages)
#   kernels     kernels of PyTorch alone                                                 (270 s; PyTorch)
#   compare     what rows, cases and frameworks measured, with predictions
# HEADROOM_BUILD names the build folder of a program that was built elsewhere (with tests, where nvcc is); otherwise
# the program is built here when a part needs it. HEADROOM_CONFIG_DIR, HEADROOM_CUDA_PLUGIN and PYTHON are respected.
# HEADROOM_GPU is the GPU's name in the catalogue where nvidia-smi does not tell it.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
out=${1:-$root/build/gpu}
python=${PYTHON:-python3}
mkdir -p -- "$out" || exit 1
wants() {
  case " ${PARTS:-executor calibrate plans cases rows cudnn flash frameworks kernels compare} " in
  *" $1 "*) ;; *) return 1 ;;
  esac
}
has_torch() { "$python" -c 'import torch, transformers' 2>/dev/null; }

# The program and its catalogue, or 1. A program with the plugin and its tests: program tests.
build=${HEADROOM_BUILD:-$root/build/headless}
headroom=$build/cli/headroom
export HEADROOM_CONFIG_DIR="${HEADROOM_CONFIG_DIR:-$root/configs}"
program() {
  if [ -z "${HEADROOM_BUILD-}" ]; then
    HEADROOM_PRESET=headless "$root/run" build "$@" || return 1
  elif [ -z "${HEADROOM_CUDA_PLUGIN-}" ] && [ -f "$build/cuda/libheadroom_cuda.so" ]; then
    export HEADROOM_CUDA_PLUGIN="$build/cuda/libheadroom_cuda.so"
  fi
  [ -x "$headroom" ]
}
gpu=${HEADROOM_GPU:-$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)}
gpu=${gpu:-h100-80gb}

# step NAME COMMAND...: output and exit code go into NAME.txt; the end of the output is shown.
step() {
  name=$1
  shift
  "$@" >"$out/$name.txt" 2>&1
  echo "exit code $?" >>"$out/$name.txt"
  echo "== $name"
  tail -n 30 "$out/$name.txt"
}

# plan MODEL ARGS...: a plan file of this GPU.
plan() {
  model=$1
  shift
  "$headroom" fit "$model" --gpu "$gpu" "$@" --json >"$out/$model.plan.json" || true
}

if wants executor; then
  if program tests; then
    [ ! -x "$build/tests/gpu/executor/executor_cuda_test" ] ||
      step executor "$build/tests/gpu/executor/executor_cuda_test" --plans 20
    plan llama-3.2-1b --precision bf16 --seq 4096
    plan llama-3.1-8b --precision bf16 --seq 4096 --checkpointing full --optimizer adamw-8bit
    for model in llama-3.2-1b llama-3.1-8b; do
      step "validate-$model" "$headroom" validate "$out/$model.plan.json" --output "$out/$model.executor.json"
    done
    step validate-max-batch "$headroom" validate "$out/llama-3.2-1b.plan.json" --max-batch
  else
    echo "executor: left out (no build)" >&2
  fi
fi

if wants calibrate; then
  if program tests; then
    # HEADROOM_CALIBRATE: more options, such as --force.
    # shellcheck disable=SC2086
    step calibrate "$headroom" calibrate --output "$out/this-gpu.json" --seconds 300 ${HEADROOM_CALIBRATE-}
    if [ -s "$out/this-gpu.json" ]; then
      plan llama-3.2-1b --precision bf16 --seq 4096
      step validate-calibrated "$headroom" validate "$out/llama-3.2-1b.plan.json" --gpu "$out/this-gpu.json" \
        --output "$out/llama-3.2-1b.calibrated.json"
    fi
  else
    echo "calibrate: left out (no build)" >&2
  fi
fi

if wants plans; then
  if has_torch && program; then
    step plans "$python" "$root/tests/real/plans.py" --python "$python" --headroom "$headroom" --with torch \
      --gpu "$gpu" --seconds 300 --output "$out/plans.jsonl"
  else
    echo "plans: left out (no PyTorch and transformers, or no build)" >&2
  fi
fi

wants cases && "$python" "$root/validators/torch/measure.py" "$root/tests/gpu/cases.jsonl" "$out/gpu-cases.jsonl" \
  --seconds 480
wants rows && "$python" "$root/tests/gpu/rows.py" "$out/gpu.jsonl" --seconds 170
wants cudnn && "$python" "$root/tests/gpu/rows.py" "$out/gpu-cudnn.jsonl" --limit 20 --seconds 70 --cudnn
# The package's real kernels: the rows were recorded with stand-ins.
if wants flash && "$python" -c 'import flash_attn' 2>/dev/null; then
  "$python" "$root/tests/gpu/rows.py" "$out/gpu-flash.jsonl" --limit 30 --seconds 50 --source flash_attention
fi
wants frameworks && "$python" "$root/tests/gpu/frameworks.py" "$out/gpu-frameworks.jsonl" --seconds 400
wants kernels && timeout 270 "$python" "$root/tests/gpu/kernels.py" "$out/kernels.jsonl" --seconds 230

wants compare || exit 0
# The comparison needs a compiler and a few packages; without them it is made elsewhere.
if program; then
  for rows in gpu gpu-cases gpu-cudnn gpu-flash gpu-frameworks; do
    [ -s "$out/$rows.jsonl" ] || continue
    "$headroom" validate measured "$out/$rows.jsonl" --json >"$out/$rows.json"
    "$headroom" validate measured "$out/$rows.jsonl"
  done
else
  echo "measured: $out; compare with: ./run validate measured $out" >&2
fi
# What PyTorch allocated in the dry run of the same cases, if somebody has made it (see measure.py).
if [ -s "$out/dry.jsonl" ] && [ -s "$out/gpu-cases.jsonl" ]; then
  step cases-dryrun "$python" "$root/validators/torch/measure.py" --compare "$out/dry.jsonl" "$out/gpu-cases.jsonl"
fi
