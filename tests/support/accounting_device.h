#pragma once

#include <utility>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::test {

/// `plan` as on the accounting device, on which most figures were recorded: new segments have
/// rising addresses, and there is no cuDNN. The device books allocations and computes nothing.
inline ir::ParallelPlan on_accounting_device(ir::ParallelPlan plan) {
  plan.allocator.segments = ir::SegmentPlaces::kRising;
  if (plan.attention == ir::AttentionKind::kSdpa && plan.runtime != "torchtitan" &&
      plan.runtime != "torchtune") {
    plan.attention = ir::AttentionKind::kSdpaNoCudnn;
  }
  return plan;
}

}  // namespace headroom::test
