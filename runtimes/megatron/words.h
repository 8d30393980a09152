#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtimes/interface/runtime.h"
#include "runtimes/megatron/plan.h"

/// The words that describe a plan for Megatron-Core (`Runtime::layout`, `kernels`, `describe`).
namespace headroom::ir::megatron {

/// "TP 4 x PP 2 x DP 2": how the degrees divide the GPUs.
[[nodiscard]] std::string layout_words(const ParallelPlan& plan);

/// "fused attention, sequence parallel, recompute selective".
[[nodiscard]] std::string kernel_words(const MegatronPlan& megatron);

/// The keys of --megatron that `layout_words` and `kernel_words` already cover.
[[nodiscard]] std::span<const std::string_view> worded_keys();

/// "megatron tp 8 pp 4 dp 32, micro-batch 1 x 48, recomputes core_attn".
[[nodiscard]] std::string description(const ParallelPlan& plan);

}  // namespace headroom::ir::megatron
