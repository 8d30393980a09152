#include "runtimes/fsdp/changes.h"

#include <array>
#include <optional>

#include "runtimes/transformers/changes.h"

namespace headroom::ir::fsdp {
namespace {

std::optional<ParallelPlan> offloaded_shards(const ParallelPlan& plan,
                                             const DeviceTypes& /*device*/) {
  if (!plan.fsdp) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.fsdp->cpu_offload = true;
  return changed;
}

constexpr std::array<OwnChange, 12> kChanges = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kFusedOptimizer, &changes::fused_optimizer},
     {Change::kSdpaAttention, &changes::sdpa_attention},
     {Change::kDropLogits, &changes::drop_logits},
     {Change::kPureBf16, &changes::pure_bf16},
     {Change::kUnpreparedWeights, &transformers::unprepared},
     {Change::kFusedLoss, &transformers::fused_loss},
     {Change::kFusedKernels, &transformers::fused_kernels},
     {Change::kSmallerMicroBatch, &changes::smaller_micro_batch},
     {Change::kCheckpointing, &changes::checkpointing},
     {Change::kOffloadShards, &offloaded_shards},
     {Change::kLora, &transformers::adapters}}};

}  // namespace

std::span<const OwnChange> plan_changes() {
  return kChanges;
}

std::vector<ParallelPlan> faster_plans(Bottleneck bottleneck, const ParallelPlan& plan) {
  std::vector<ParallelPlan> out;
  if (!plan.fsdp) {
    return out;
  }
  if (bottleneck == Bottleneck::kCommunication && plan.fsdp->reshard_after_forward) {
    out.emplace_back(plan).fsdp->reshard_after_forward = false;
  }
  if (bottleneck == Bottleneck::kOffload && plan.fsdp->cpu_offload) {
    out.emplace_back(plan).fsdp->cpu_offload = false;
  }
  return out;
}

}  // namespace headroom::ir::fsdp
