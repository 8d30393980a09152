#include "runtimes/deepspeed/changes.h"

#include <array>
#include <optional>
#include <utility>

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

constexpr std::array<OwnChange, 17> kChanges = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kFusedOptimizer, &fused_on_device},
     {Change::kSdpaAttention, &changes::sdpa_attention},
     {Change::kDropLogits, &changes::drop_logits},
     {Change::kZero1, &transformers::zero1},
     {Change::kZero2, &transformers::zero2},
     {Change::kMixedPrecision, &master_copies},
     {Change::kUnpreparedWeights, &transformers::unprepared},
     {Change::kFusedLoss, &transformers::fused_loss},
     {Change::kFusedKernels, &transformers::fused_kernels},
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

/// ZeRO++: parameters kept a second time within a node, gathered in 8 bits, gradients in 4 bits.
/// Source: Wang et al. 2023, ZeRO++, arXiv:2306.10209, section 3.
std::vector<ParallelPlan> zero_plus(const ParallelPlan& plan) {
  const std::int64_t node = plan.zero->node_devices;
  const bool several = plan.world > node && plan.world % node == 0;
  std::vector<ParallelPlan> out;
  if (several && plan.zero->hpz_partition_size == 1) {
    out.emplace_back(plan).zero->hpz_partition_size = node;
  }
  if (!plan.zero->quantized_weights) {
    out.emplace_back(plan).zero->quantized_weights = true;
  }
  ZeroPlan& all = *out.emplace_back(plan).zero;
  all.hpz_partition_size = several ? node : all.hpz_partition_size;
  all.quantized_weights = true;
  all.quantized_gradients = true;
  std::erase(out, plan);
  return out;
}

std::vector<ParallelPlan> less_communication(const ParallelPlan& plan) {
  ParallelPlan less = plan;
  less.zero->stage -= 1;
  if (less.zero->stage < 3) {  // ZeRO++ is stage 3's.
    less.zero->hpz_partition_size = 1;
    less.zero->quantized_weights = false;
    less.zero->quantized_gradients = false;
  }
  std::vector<ParallelPlan> out = {less};
  if (plan.zero->stage == 3) {
    for (ParallelPlan& plus : zero_plus(plan)) {
      out.push_back(std::move(plus));
    }
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
    return less_communication(plan);
  }
  return bottleneck == Bottleneck::kOffload ? less_offload(plan) : std::vector<ParallelPlan>{};
}

}  // namespace headroom::ir::deepspeed
