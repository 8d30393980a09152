#pragma once

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// Turns a plan as a file has it into the plan that is asked about, wherever the file is opened:
/// the parts of other frameworks are dropped, those that its framework always has are added, and a
/// 16-bit precision gets the fp32 masters that the framework keeps. Idempotent. A plan of an
/// unknown framework stays as it is.
void settle_filed(ParallelPlan& plan);

/// A precision as the plan's framework calls it: frameworks that keep fp32 masters themselves call
/// those precisions bf16 and fp16. Requires a framework of `runtimes`.
void settle_precision(ParallelPlan& plan);

}  // namespace headroom::ir
