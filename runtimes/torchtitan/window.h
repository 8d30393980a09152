#pragma once

#include "runtimes/interface/runtime.h"

/// A plan that the window hands over to torchtitan.
namespace headroom::ir::torchtitan {

/// `Runtime::settle`: makes the degrees divide the ranks, adds FSDP's part and AdamW, and removes
/// options that torchtitan does not read.
void settle_plan(ParallelPlan& plan);

}  // namespace headroom::ir::torchtitan
