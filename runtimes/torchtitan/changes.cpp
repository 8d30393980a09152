#include "runtimes/torchtitan/changes.h"

#include <array>
#include <optional>

#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

/// Checkpoints every block, instead of single operators or a memory budget.
std::optional<ParallelPlan> full_checkpointing(const ParallelPlan& plan,
                                               const DeviceTypes& device) {
  std::optional<ParallelPlan> changed = changes::checkpointing(plan, device);
  if (changed && has_titan(*changed)) {
    edit_titan(*changed).selective_operators = false;
    edit_titan(*changed).memory_budget.reset();
  }
  return changed;
}

constexpr std::array<OwnChange, 7> kChanges = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kFusedOptimizer, &changes::fused_optimizer},
     {Change::kSdpaAttention, &changes::sdpa_attention},
     {Change::kDropLogits, &changes::drop_logits},
     {Change::kPureBf16, &changes::pure_bf16},
     {Change::kSmallerMicroBatch, &changes::smaller_micro_batch},
     {Change::kCheckpointing, &full_checkpointing}}};

}  // namespace

std::span<const OwnChange> plan_changes() {
  return kChanges;
}

}  // namespace headroom::ir::torchtitan
