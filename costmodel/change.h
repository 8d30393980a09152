#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cost {

/// One thing that can be changed about a plan to make it smaller, cheapest first: what costs
/// nothing, what costs some speed, what changes what is trained, what moves data over PCIe.
enum class Change : std::uint8_t {
  kExpandableSegments,
  kFusedOptimizer,
  kSdpaAttention,
  kDropLogits,
  kSequenceParallel,
  kZero1,
  kZero2,
  kMixedPrecision,
  kPureBf16,
  kFusedLoss,
  kSmallerMicroBatch,
  kEightBitOptimizer,
  kSelectiveRecompute,
  kCheckpointing,
  kMoreTensorParallel,
  kZero3,
  kOffloadOptimizer,
  kLora,
  kQlora,
  kOffloadParameters,
};
/// All of them, cheapest first.
[[nodiscard]] std::span<const Change> all_changes();

/// "recompute every layer in backward".
[[nodiscard]] std::string_view describe(Change change);
/// What it costs, in words: "one more forward of every layer".
[[nodiscard]] std::string_view cost_of(Change change);
/// Where the cost comes from.
[[nodiscard]] std::string_view source_of(Change change);

/// `plan` with the change made; nothing where it is made already, does not apply to the plan, or
/// the device cannot do it. `kSmallerMicroBatch` halves and `kMoreTensorParallel` doubles;
/// accumulation grows by as much, so that the batch of a step stays the same.
[[nodiscard]] std::optional<ir::ParallelPlan> with_change(const ir::ParallelPlan& plan,
                                                          Change change, const DeviceSpec& device);

}  // namespace headroom::cost
