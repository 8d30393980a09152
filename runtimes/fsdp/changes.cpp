#include "runtimes/fsdp/changes.h"

#include <array>
#include <optional>

#include "runtimes/transformers/changes.h"

#include "runtimes/fsdp/plan.h"

namespace headroom::ir::fsdp {
namespace {

/// A plan whose quantised weights FSDP1 shards from the host. It takes no prepared weights.
ParallelPlan sharded_from_host(const ParallelPlan& plan) {
  ParallelPlan changed = plan;
  changed.quant->prepare_kbit = false;
  edit_fsdp(changed).version = 1;
  edit_fsdp(changed).quantised_on_host = true;
  return changed;
}

std::optional<ParallelPlan> offloaded_shards(const ParallelPlan& plan,
                                             const DeviceTypes& /*device*/) {
  if (!has_fsdp(plan)) {
    return std::nullopt;
  }
  ParallelPlan changed = plan.quant ? sharded_from_host(plan) : plan;
  edit_fsdp(changed).cpu_offload = true;
  return changed;
}

std::optional<ParallelPlan> quantised_on_host(const ParallelPlan& plan,
                                              const DeviceTypes& /*device*/) {
  if (!has_fsdp(plan) || !plan.quant || fsdp_of(plan).quantised_on_host) {
    return std::nullopt;
  }
  return sharded_from_host(plan);
}

constexpr std::array<OwnChange, 13> kChanges = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kFusedOptimizer, &changes::fused_optimizer},
     {Change::kSdpaAttention, &changes::sdpa_attention},
     {Change::kDropLogits, &changes::drop_logits},
     {Change::kPureBf16, &changes::pure_bf16},
     {Change::kUnpreparedWeights, &transformers::unprepared},
     {Change::kQuantisedOnHost, &quantised_on_host},
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
  if (!has_fsdp(plan)) {
    return out;
  }
  if (bottleneck == Bottleneck::kCommunication && fsdp_of(plan).reshard_after_forward) {
    edit_fsdp(out.emplace_back(plan)).reshard_after_forward = false;
  }
  if (bottleneck == Bottleneck::kOffload && fsdp_of(plan).cpu_offload) {
    edit_fsdp(out.emplace_back(plan)).cpu_offload = false;
  }
  return out;
}

}  // namespace headroom::ir::fsdp
