#include "runtimes/deepspeed/changes.h"

#include <array>
#include <optional>

#include "runtimes/transformers/changes.h"

namespace headroom::ir::deepspeed {
namespace {

/// If the optimizer is on the host, DeepSpeedCPUAdam is fused already.
std::optional<ParallelPlan> fused_on_device(const ParallelPlan& plan, const DeviceTypes& device) {
  const bool offloaded = plan.zero && plan.zero->offload_optimizer != OffloadDevice::kNone;
  return offloaded ? std::nullopt : changes::fused_optimizer(plan, device);
}

std::optional<ParallelPlan> master_copies(const ParallelPlan& plan, const DeviceTypes& device) {
  if (plan.precision != Precision::kFp32) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.precision = device.bf16 ? Precision::kBf16Master : Precision::kFp16Master;
  return changed;
}

/// Stage 3 does not shard quantised weights.
std::optional<ParallelPlan> unsharded_quantised(const ParallelPlan& plan,
                                                const DeviceTypes& device) {
  const bool sharded = plan.zero && plan.zero->stage == 3;
  return sharded ? std::nullopt : transformers::quantised_adapters(plan, device);
}

constexpr std::array<OwnChange, 15> kChanges = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kFusedOptimizer, &fused_on_device},
     {Change::kSdpaAttention, &changes::sdpa_attention},
     {Change::kDropLogits, &changes::drop_logits},
     {Change::kZero1, &transformers::zero1},
     {Change::kZero2, &transformers::zero2},
     {Change::kMixedPrecision, &master_copies},
     {Change::kFusedLoss, &transformers::fused_loss},
     {Change::kSmallerMicroBatch, &changes::smaller_micro_batch},
     {Change::kCheckpointing, &changes::checkpointing},
     {Change::kZero3, &transformers::zero3},
     {Change::kOffloadOptimizer, &transformers::offloaded_optimizer},
     {Change::kLora, &transformers::adapters},
     {Change::kQlora, &unsharded_quantised},
     {Change::kOffloadParameters, &transformers::offloaded_parameters}}};

std::vector<ParallelPlan> less_offload(const ParallelPlan& plan) {
  std::vector<ParallelPlan> out;
  if (plan.zero->offload_param != OffloadDevice::kNone) {
    ParallelPlan& kept = out.emplace_back(plan);
    kept.zero->offload_param = OffloadDevice::kNone;
  }
  if (plan.zero->offload_optimizer != OffloadDevice::kNone) {
    ParallelPlan& kept = out.emplace_back(plan);
    kept.zero->offload_optimizer = OffloadDevice::kNone;
    kept.zero->offload_ratio = 1;
  }
  return out;
}

}  // namespace

std::span<const OwnChange> plan_changes() {
  return kChanges;
}

std::vector<ParallelPlan> faster_plans(Bottleneck bottleneck, const ParallelPlan& plan) {
  if (!plan.zero) {
    return {};
  }
  if (bottleneck == Bottleneck::kCommunication && plan.zero->stage > 1) {
    ParallelPlan less = plan;
    less.zero->stage -= 1;
    return {less};
  }
  return bottleneck == Bottleneck::kOffload ? less_offload(plan) : std::vector<ParallelPlan>{};
}

}  // namespace headroom::ir::deepspeed
