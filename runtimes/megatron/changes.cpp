#include "runtimes/megatron/changes.h"

#include <array>
#include <optional>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::ir::megatron {
namespace {

std::optional<ParallelPlan> sequence_parallel(const ParallelPlan& plan,
                                              const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  edit_megatron(changed).sequence_parallel = plan.mesh.tensor > 1;
  return changed;
}

std::optional<ParallelPlan> fused_attention(const ParallelPlan& plan,
                                            const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  if (megatron_of(plan).attention == MegatronAttention::kUnfused) {
    edit_megatron(changed).attention = MegatronAttention::kFused;
  }
  return changed;
}

std::optional<ParallelPlan> distributed_optimizer(const ParallelPlan& plan,
                                                  const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  edit_megatron(changed).distributed_optimizer = true;
  return changed;
}

/// Recomputes attention scores and MLPs in backward, and norms, which cost almost nothing to
/// recompute. Megatron supports either recomputation or CPU offloading of layers, not both.
std::optional<ParallelPlan> selective_recompute(const ParallelPlan& plan,
                                                const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  MegatronPlan& megatron = edit_megatron(changed);
  if (megatron.recompute == MegatronRecompute::kNone) {
    megatron.recompute = MegatronRecompute::kSelective;
    megatron.recompute_modules = {.core_attention = true, .norms = true, .mlp = true};
  }
  megatron.offloaded_layers = 0;
  return changed;
}

std::optional<ParallelPlan> full_recompute(const ParallelPlan& plan,
                                           const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  MegatronPlan& megatron = edit_megatron(changed);
  megatron.recompute = MegatronRecompute::kFullUniform;
  megatron.recompute_layers = 1;
  megatron.recompute_modules = {};
  megatron.offloaded_layers = 0;
  megatron.offload_modules = {};
  megatron.overlap_expert_exchange = megatron.delayed_weight_gradients = false;
  return changed;
}

/// Doubles the tensor-parallel ranks and halves the data-parallel ranks.
std::optional<ParallelPlan> more_tensor_parallel(const ParallelPlan& plan,
                                                 const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  MegatronPlan& megatron = edit_megatron(changed);
  const std::int64_t model = changed.mesh.tensor * changed.mesh.pipeline * changed.mesh.context;
  if (plan.world % (2 * model) == 0) {
    changed.mesh.tensor *= 2;
    megatron.sequence_parallel = true;
    changed.workload.accumulation *= 2;
  }
  return changed;
}

constexpr std::array<OwnChange, 8> kChanges = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kSdpaAttention, &fused_attention},
     {Change::kSequenceParallel, &sequence_parallel},
     {Change::kZero1, &distributed_optimizer},
     {Change::kSmallerMicroBatch, &changes::smaller_micro_batch},
     {Change::kSelectiveRecompute, &selective_recompute},
     {Change::kCheckpointing, &full_recompute},
     {Change::kMoreTensorParallel, &more_tensor_parallel}}};

std::vector<ParallelPlan> less_communication(const ParallelPlan& plan) {
  std::vector<ParallelPlan> out;
  if (!megatron_of(plan).overlap_grad_reduce && megatron_of(plan).distributed_optimizer) {
    MegatronPlan& overlapped = edit_megatron(out.emplace_back(plan));
    overlapped.overlap_grad_reduce = true;
    overlapped.overlap_param_gather = true;
  }
  const MegatronPlan& own = megatron_of(plan);
  if (own.sequence_parallel && own.transformer_engine && !own.tp_comm_overlap) {
    edit_megatron(out.emplace_back(plan)).tp_comm_overlap = true;
  }
  if (plan.mesh.expert > 1 && !own.shared_expert_overlap) {  // Refused without shared experts.
    edit_megatron(out.emplace_back(plan)).shared_expert_overlap = true;
  }
  if (plan.mesh.expert > 1 && plan.workload.accumulation > 1 && !own.overlap_expert_exchange) {
    run_micro_batches_together(edit_megatron(out.emplace_back(plan)));
  }
  if (plan.mesh.tensor % 2 == 0 && plan.workload.accumulation % 2 == 0) {
    ParallelPlan& narrower = out.emplace_back(plan);
    narrower.mesh.tensor /= 2;
    edit_megatron(narrower).sequence_parallel =
        megatron_of(plan).sequence_parallel && narrower.mesh.tensor > 1;
    edit_megatron(narrower).tp_comm_overlap =
        own.tp_comm_overlap && megatron_of(narrower).sequence_parallel;
    narrower.workload.accumulation /= 2;
  }
  return out;
}

std::vector<ParallelPlan> smaller_bubble(const ParallelPlan& plan, std::int64_t layers) {
  const MegatronPlan& megatron = megatron_of(plan);
  std::vector<ParallelPlan> out;
  if (plan.mesh.pipeline == 1 || !megatron.pipeline_layout.empty()) {
    return out;
  }
  const std::int64_t own = layers / plan.mesh.pipeline;
  const std::int64_t chunk = megatron.layers_per_chunk > 0 ? megatron.layers_per_chunk : own;
  const bool even = layers % plan.mesh.pipeline == 0 && chunk % 2 == 0;
  if (even && plan.workload.accumulation % plan.mesh.pipeline == 0) {
    edit_megatron(out.emplace_back(plan)).layers_per_chunk = chunk / 2;
  }
  if (const std::optional<ParallelPlan> smaller = changes::smaller_micro_batch(plan, {})) {
    out.push_back(*smaller);
  }
  if (plan.mesh.pipeline % 2 == 0) {
    ParallelPlan& shorter = out.emplace_back(plan);
    shorter.mesh.pipeline /= 2;
    shorter.mesh.tensor *= 2;
  }
  return out;
}

std::vector<ParallelPlan> less_offload(const ParallelPlan& plan) {
  std::vector<ParallelPlan> out;
  if (megatron_of(plan).offloaded_layers > 0) {
    for (const std::int64_t layers : {megatron_of(plan).offloaded_layers / 2, std::int64_t{0}}) {
      edit_megatron(out.emplace_back(plan)).offloaded_layers = layers;
    }
  }
  return out;
}

/// The same without recomputation.
std::vector<ParallelPlan> less_recomputation(const ParallelPlan& plan) {
  std::vector<ParallelPlan> out;
  if (megatron_of(plan).recompute != MegatronRecompute::kNone) {
    MegatronPlan& own = edit_megatron(out.emplace_back(plan));
    own.recompute = MegatronRecompute::kNone;
    own.recompute_layers = MegatronPlan().recompute_layers;
    own.recompute_modules = {};
  }
  return out;
}

}  // namespace

std::span<const OwnChange> plan_changes() {
  return kChanges;
}

std::vector<Change> tree_of_remedies() {
  return {Change::kMixedPrecision,   Change::kCheckpointing, Change::kSmallerMicroBatch,
          Change::kSequenceParallel, Change::kZero1,         Change::kMoreTensorParallel};
}

std::vector<ParallelPlan> faster_plans(Bottleneck bottleneck, const ParallelPlan& plan,
                                       std::int64_t layers) {
  switch (bottleneck) {
    case Bottleneck::kCommunication:
      return less_communication(plan);
    case Bottleneck::kSmallBatch:
    case Bottleneck::kKernels:
      return {};
    case Bottleneck::kRecomputation:
      return less_recomputation(plan);
    case Bottleneck::kBubble:
      return smaller_bubble(plan, layers);
    case Bottleneck::kOffload:
      return less_offload(plan);
  }
  return {};
}

}  // namespace headroom::ir::megatron
