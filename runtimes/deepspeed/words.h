#pragma once

#include <string>

#include "runtimes/interface/runtime.h"

/// How a DeepSpeed plan is put into words (`Runtime::layout`, `Runtime::describe`).
namespace headroom::ir::deepspeed {

/// The stage and its options, such as " ZeRO-3 hpz=8".
[[nodiscard]] std::string layout_words(const ParallelPlan& plan, const TypedOption& typed);

/// The plan in one line, such as "deepspeed zero 2 offload optimizer dp 8, micro-batch 1 x 4, no
/// recomputation".
[[nodiscard]] std::string description(const ParallelPlan& plan);

}  // namespace headroom::ir::deepspeed
