#pragma once

#include <utility>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::test {

/// `plan` where most figures were recorded: on a device that only accounts, whose segments rise and
/// which has no cuDNN.
inline ir::ParallelPlan on_accounting_device(ir::ParallelPlan plan) {
  plan.allocator.segments = ir::SegmentPlaces::kRising;
  if (plan.attention == ir::AttentionKind::kSdpa && plan.runtime != "torchtitan" &&
      plan.runtime != "torchtune") {
    plan.attention = ir::AttentionKind::kSdpaNoCudnn;
  }
  return plan;
}

}  // namespace headroom::test
