#include "runtimes/interface/runtime.h"

namespace headroom::ir {

void Runtime::prepare_for_search(ParallelPlan& plan) const {
  if (plan.precision == Precision::kBf16Master) {
    plan.precision = Precision::kBf16;
  } else if (plan.precision == Precision::kFp16Master) {
    plan.precision = Precision::kFp16;
  }
}

std::optional<ParallelPlan> Runtime::one_rank_alone(const ParallelPlan& /*plan*/) const {
  return std::nullopt;
}

Launch Runtime::launch(const ModelSpec& /*model*/, const ParallelPlan& plan,
                       const LaunchSite& site) const {
  Launch launch{.command = torchrun_words(plan, site), .code = {}};
  launch.command.emplace_back("train.py");
  return launch;
}

}  // namespace headroom::ir
