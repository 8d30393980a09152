#include "runtimes/transformers/required_capability.h"

#include <array>

namespace headroom::ir::transformers {
namespace {

/// Sources: huggingface.co/docs/bitsandbytes/installation, "Hardware Compatibility";
///          pytorch/pytorch 2.11 torch/_inductor/exc.py, GPUTooOldForTriton, for Liger's kernels,
///          which are written in Triton.
constexpr std::array<CapabilityRule, 4> kRules = {
    {{.option = "qlora",
      .what = "8-bit weights (LLM.int8())",
      .uses = [](const ParallelPlan& plan) { return plan.quant && plan.quant->bits == 8; },
      .least = {7, 5},
      .words = "bitsandbytes needs \"NVIDIA Turing (RTX 20 series, T4) or newer GPUs\"",
      .fix = "use 4-bit weights: --qlora bits=4"},
     {.option = "qlora",
      .what = "4-bit weights",
      .uses = [](const ParallelPlan& plan) { return plan.quant.has_value(); },
      .least = {6, 0},
      .words = "bitsandbytes needs \"NVIDIA Pascal (GTX 10X0 series, P100) or newer GPUs\"",
      .fix = "use --lora"},
     {.option = "optimizer",
      .what = "states in 8 bits",
      .uses =
          [](const ParallelPlan& plan) {
            return plan.optimizer.form == OptimizerForm::kEightBit ||
                   plan.optimizer.form == OptimizerForm::kPagedEightBit ||
                   plan.optimizer.form == OptimizerForm::kPaged;
          },
      .least = {6, 0},
      .words = "bitsandbytes needs \"NVIDIA Pascal (GTX 10X0 series, P100) or newer GPUs\"",
      .fix = "use --optimizer adamw-fused"},
     {.option = "liger",
      .what = "Liger's kernels",
      .uses =
          [](const ParallelPlan& plan) {
            return plan.liger || plan.loss == LossKind::kFusedLinear;
          },
      .least = {7, 0},
      .words = "\"Triton only supports devices of CUDA Capability >= 7.0\"",
      .fix = "leave out --liger and --loss fused-linear"}}};

}  // namespace

std::span<const CapabilityRule> capability_rules() {
  return kRules;
}

}  // namespace headroom::ir::transformers
