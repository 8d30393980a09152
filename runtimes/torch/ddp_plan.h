#pragma once

#include <cstdint>

#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// torch DistributedDataParallel.
struct DdpPlan {
  bool gradient_as_bucket_view = false;
  std::int64_t bucket_cap_bytes = 25 * kMiB;
  bool init_sync = true;  ///< Rank 0 sends parameters and buffers to the others at the start.
  friend bool operator==(const DdpPlan&, const DdpPlan&) = default;
};

/// DistributedDataParallel's options of a plan; the defaults if it has none.
[[nodiscard]] inline const DdpPlan& ddp_of(const ParallelPlan& plan) {
  return plan.own.get<DdpPlan>();
}
/// The same to edit, which adds them to a plan that has none.
inline DdpPlan& edit_ddp(ParallelPlan& plan) {
  return plan.own.edit<DdpPlan>();
}
/// Whether the plan has them.
[[nodiscard]] inline bool has_ddp(const ParallelPlan& plan) {
  return plan.own.has<DdpPlan>();
}

}  // namespace headroom::ir
