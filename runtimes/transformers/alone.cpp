#include "runtimes/transformers/alone.h"

namespace headroom::ir::transformers {
namespace {

Precision arithmetic_precision(const ParallelPlan& plan) {
  if (plan.fsdp && plan.fsdp->param_dtype == DType::kBf16) {
    return Precision::kBf16;
  }
  switch (plan.precision) {
    case Precision::kBf16Master:
      return Precision::kBf16;
    case Precision::kFp16Master:
      return Precision::kFp16;
    default:
      return plan.precision;
  }
}

}  // namespace

ParallelPlan one_rank_alone(const ParallelPlan& plan) {
  ParallelPlan one = plan;
  one.runtime = "transformers";
  one.precision = arithmetic_precision(plan);
  one.optimizer = {.kind = OptimizerKind::kNone};
  one.accumulation = 1;
  one.steps = 1;
  one.world = 1;
  one.ddp.reset();
  one.zero.reset();
  one.fsdp.reset();
  return one;
}

}  // namespace headroom::ir::transformers
