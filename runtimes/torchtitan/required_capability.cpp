#include "runtimes/torchtitan/required_capability.h"

#include <array>

#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

/// Sources: pytorch/torchtitan 0.2.2 torchtitan/components/quantization/float8.py, which asks for
///          the same number of an AMD GPU, so that a gfx90a passes; the message of the product is
///          that of pytorch/pytorch 2.11 (libtorch_cuda);
///          pytorch/pytorch 2.11 torch/_inductor/exc.py, GPUTooOldForTriton.
constexpr std::array<CapabilityRule, 2> kRules = {
    {{.option = "titan",
      .what = "float8",
      .uses = [](const ParallelPlan& plan) { return titan_of(plan).float8 != Float8Recipe::kNone; },
      .least = {8, 9},
      .words = "torchtitan: \"float8 is only supported on SM89 or later\"",
      .fix = "leave out float8",
      .least_rocm = {9, 4},
      .rocm_words = "\"torch._scaled_mm is only supported on CUDA devices with compute capability "
                    ">= 9.0 or 8.9, or ROCm MI300+\""},
     {.option = "titan",
      .what = "compiled blocks",
      .uses = [](const ParallelPlan& plan) { return titan_of(plan).compiled; },
      .least = {7, 0},
      .words = "\"Triton only supports devices of CUDA Capability >= 7.0\"",
      .fix = "leave out compile"}}};

}  // namespace

std::span<const CapabilityRule> capability_rules() {
  return kRules;
}

}  // namespace headroom::ir::torchtitan
