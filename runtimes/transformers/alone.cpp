#include "runtimes/transformers/alone.h"

namespace headroom::ir::transformers {

Precision without_masters(Precision precision) {
  switch (precision) {
    case Precision::kBf16Master:
      return Precision::kBf16;
    case Precision::kFp16Master:
      return Precision::kFp16;
    default:
      return precision;
  }
}

ParallelPlan one_rank_alone(const ParallelPlan& plan, Precision arithmetic) {
  ParallelPlan one = plan;
  one.runtime = "transformers";
  one.precision = arithmetic;
  one.optimizer = {.kind = OptimizerKind::kNone};
  one.workload.accumulation = 1;
  one.workload.steps = 1;
  one.world = 1;
  one.own = {};
  one.mesh = {};
  return one;
}

}  // namespace headroom::ir::transformers
