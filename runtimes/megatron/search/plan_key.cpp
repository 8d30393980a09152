#include "runtimes/megatron/search/plan_key.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtimes/megatron/plan.h"

namespace headroom::plan {
namespace {

using ir::MegatronPlan;
using ir::ParallelPlan;

/// Resets how layers are assigned to stages, and ranks to the mesh.
void drop_stages(ParallelPlan& plan) {
  const MegatronPlan usual;
  MegatronPlan& megatron = edit_megatron(plan);
  plan.mesh.pipeline = 1;
  megatron.layers_per_chunk = usual.layers_per_chunk;
  megatron.first_stage_layers = usual.first_stage_layers;
  megatron.last_stage_layers = usual.last_stage_layers;
  megatron.account_for_embedding = usual.account_for_embedding;
  megatron.account_for_loss = usual.account_for_loss;
  megatron.pipeline_before_data = usual.pipeline_before_data;
}

/// Resets how gradients are exchanged and where the optimizer's states are.
void drop_optimizer(ParallelPlan& plan) {
  const MegatronPlan usual;
  MegatronPlan& megatron = edit_megatron(plan);
  plan.optimizer = {};
  megatron.distributed_optimizer = usual.distributed_optimizer;
  megatron.overlap_grad_reduce = usual.overlap_grad_reduce;
  megatron.overlap_param_gather = usual.overlap_param_gather;
  megatron.precision_aware = usual.precision_aware;
  megatron.bf16_moments = usual.bf16_moments;
  megatron.optimizer_offload = usual.optimizer_offload;
  megatron.optimizer_instances = usual.optimizer_instances;
}

void drop_recomputation(MegatronPlan& megatron) {
  const MegatronPlan usual;
  megatron.recompute = usual.recompute;
  megatron.recompute_layers = usual.recompute_layers;
  megatron.recompute_modules = usual.recompute_modules;
}

/// Steps after the second repeat it, and the rank to be shown does not matter.
ParallelPlan common_of(const ParallelPlan& plan) {
  ParallelPlan one = plan;
  one.workload.steps = std::min(plan.workload.steps, 2);
  one.workload.accumulation = 1;
  one.rank.reset();
  return one;
}

}  // namespace

PlanKey tensors_key(const ParallelPlan& plan, std::vector<std::int64_t> numbers) {
  ParallelPlan one = common_of(plan);
  one.world = 1;
  drop_stages(one);
  drop_optimizer(one);
  edit_megatron(one).recompute_layers = MegatronPlan{}.recompute_layers;
  return {.plan = std::move(one), .numbers = std::move(numbers)};
}

PlanKey states_key(const ParallelPlan& plan, ir::Rank rank) {
  const MegatronPlan usual;
  ParallelPlan one = common_of(plan);
  MegatronPlan& megatron = edit_megatron(one);
  one.workload.micro_batch = 1;
  one.workload.sequence = 1;
  drop_recomputation(megatron);
  megatron.sequence_parallel = usual.sequence_parallel;
  megatron.attention = usual.attention;
  megatron.context_exchange = usual.context_exchange;
  megatron.context_exchange_ranks = usual.context_exchange_ranks;
  megatron.overlap_param_gather = usual.overlap_param_gather;
  megatron.accumulation_fusion = usual.accumulation_fusion;
  megatron.cross_entropy = usual.cross_entropy;
  megatron.mask_in_dataloader = usual.mask_in_dataloader;
  megatron.offload_modules = usual.offload_modules;
  megatron.least_offloaded = usual.least_offloaded;
  return {.plan = std::move(one), .numbers = {static_cast<std::int64_t>(rank)}};
}

PlanKey pieces_key(const ParallelPlan& plan) {
  const MegatronPlan usual;
  ParallelPlan one = common_of(plan);
  MegatronPlan& megatron = edit_megatron(one);
  one.world = plan.world > 1 ? 2 : 1;  // A single device multiplies faster than one among others.
  drop_stages(one);
  drop_optimizer(one);
  drop_recomputation(megatron);
  megatron.accumulation_fusion = usual.accumulation_fusion;
  megatron.cross_entropy = usual.cross_entropy;
  megatron.mask_in_dataloader = usual.mask_in_dataloader;
  return {.plan = std::move(one), .numbers = {}};
}

/// Hashes the fields that searches vary; equality compares all fields.
std::size_t PlanKeyHash::operator()(const PlanKey& key) const {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, over whole numbers.
  const auto add = [&hash](auto value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3U;
    hash ^= hash >> 29;
  };
  const ParallelPlan& plan = key.plan;
  const MegatronPlan& megatron = megatron_of(plan);
  for (const std::int64_t number :
       {plan.world, plan.workload.micro_batch, plan.workload.sequence, plan.mesh.tensor,
        plan.mesh.pipeline, plan.mesh.context, plan.mesh.expert, plan.mesh.expert_tensor,
        megatron.layers_per_chunk, megatron.first_stage_layers, megatron.last_stage_layers}) {
    add(number);
  }
  for (const bool on :
       {megatron.sequence_parallel, megatron.accumulation_fusion, megatron.mask_in_dataloader,
        megatron.distributed_optimizer, megatron.overlap_grad_reduce,
        megatron.account_for_embedding, megatron.account_for_loss, megatron.pipeline_before_data,
        megatron.fp8_parameters, megatron.overlap_expert_exchange,
        megatron.recompute_modules.core_attention, megatron.recompute_modules.norms,
        megatron.recompute_modules.mlp, megatron.offload_modules.core_attention,
        megatron.offload_modules.qkv_linear, megatron.offload_modules.expert_activation}) {
    add(on ? 1 : 2);
  }
  add(plan.precision);
  add(megatron.cross_entropy);
  add(megatron.attention);
  add(megatron.context_exchange);
  add(megatron.recompute);
  add(megatron.fp8);
  add(megatron.dispatcher);
  add(std::lround(megatron.optimizer_offload * 64));
  for (const std::int64_t number : key.numbers) {
    add(number);
  }
  return hash;
}

}  // namespace headroom::plan
