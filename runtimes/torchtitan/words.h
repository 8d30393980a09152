#pragma once

#include <string>

#include "runtimes/interface/runtime.h"

/// The words that describe a plan for torchtitan (`Runtime::layout`, `Runtime::describe`).
namespace headroom::ir::torchtitan {

/// "tp=2,reshard=default reshard=yes,param=bf16,reduce=fp32".
[[nodiscard]] std::string layout_words(const ParallelPlan& plan, const TypedOption& typed);

/// "torchtitan tp 2 pp 1 dp 4, micro-batch 1 x 4, recomputes every layer".
[[nodiscard]] std::string description(const ParallelPlan& plan);

}  // namespace headroom::ir::torchtitan
