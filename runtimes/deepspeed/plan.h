#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/dtype.h"

namespace headroom::ir {

enum class OffloadDevice : std::uint8_t { kNone, kCpu, kNvme };

/// Modules whose parameters ZeRO stage 3 gathers and releases as one unit (set_z3_leaf_modules).
enum class ZeroLeaf : std::uint8_t {
  kDefault,  ///< Blocks of experts whose classes DeepSpeed knows.
  kExperts,  ///< Every block of experts.
};

/// DeepSpeed ZeRO, with the keys of its configuration; sizes in elements.
struct ZeroPlan {
  int stage = 0;
  std::int64_t reduce_bucket_size = 500'000'000;
  std::int64_t allgather_bucket_size = 500'000'000;
  std::optional<bool> overlap_comm;  ///< none: true for stage 3, else false.
  bool contiguous_gradients = true;
  bool round_robin_gradients = false;
  std::int64_t sub_group_size = 1'000'000'000;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t param_persistence_threshold = 100'000;
  std::int64_t model_persistence_threshold = INT64_MAX;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  OffloadDevice offload_optimizer = OffloadDevice::kNone;
  OffloadDevice offload_param = OffloadDevice::kNone;
  /// offload_optimizer.ratio (ZeRO-Offload++, "Twin-Flow"): the share of stage 3's sub-groups whose
  /// master weights, gradients and optimizer states are on the host; the first sub-groups stay on
  /// the device.
  double offload_ratio = 1;
  std::string nvme_path;
  /// Norms and biases form their own parameter group without weight decay, as in transformers'
  /// Trainer. Each group is flattened, padded and partitioned separately.
  bool decay_groups = false;
  /// data_types.grad_accum_dtype; none: the parameters' type.
  std::optional<DType> grad_accum_dtype;
  /// Whether a fused AdamW is torch's; otherwise it is DeepSpeed's FusedAdam.
  bool torch_adam = false;
  /// ZeRO++ (hpZ): number of ranks that share the secondary partition of the parameters; 1: none.
  std::int64_t hpz_partition_size = 1;
  bool quantized_weights = false;    ///< qwZ: parameters are gathered as 8-bit integers.
  bool quantized_gradients = false;  ///< qgZ: gradients are exchanged as 4-bit integers.
  std::int64_t node_devices = 8;     ///< Devices per node, for qgZ.
  ZeroLeaf leaf = ZeroLeaf::kDefault;
  /// True: each gradient is reduced to its owner. False: every rank gets the whole bucket.
  bool reduce_scatter = true;
  /// Stages 1 and 2. True: one all-reduce for the parts of several owners. False: one reduce to
  /// each owner.
  bool multi_rank_allreduce = true;
  bool parameter_alignment = false;  ///< Stages 1 and 2: parameters begin at multiples of 16 bytes.
  bool compute_grad_norm = true;     ///< Stages 1 and 2.
  bool memory_efficient_linear = true;  ///< Stage 3: DeepSpeed's own linear function.
  bool allgather_sequential = false;    ///< Stage 3: parameters are gathered one by one.
  bool all_reduce_fetch = false;        ///< Stage 3: parameters are gathered by an all-reduce.
  /// Type in which gradients are communicated; none: the engine's own type.
  std::optional<DType> communication_dtype;
  friend bool operator==(const ZeroPlan&, const ZeroPlan&) = default;
};

/// ZeRO's options of a plan; the defaults if it has none.
[[nodiscard]] inline const ZeroPlan& zero_of(const ParallelPlan& plan) {
  return plan.own.get<ZeroPlan>();
}
/// The same to edit, which adds them to a plan that has none.
inline ZeroPlan& edit_zero(ParallelPlan& plan) {
  return plan.own.edit<ZeroPlan>();
}
/// Whether the plan has them.
[[nodiscard]] inline bool has_zero(const ParallelPlan& plan) {
  return plan.own.has<ZeroPlan>();
}

[[nodiscard]] std::span<const Word<OffloadDevice>> offload_words();
[[nodiscard]] std::span<const Word<ZeroLeaf>> zero_leaf_words();

}  // namespace headroom::ir
