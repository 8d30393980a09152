#include "planner/evaluate/step_time.h"

#include <algorithm>
#include <vector>

#include "costmodel/hardware/work_time.h"
#include "model_ir/plan/megatron_fields.h"
#include "model_ir/plan/megatron_stages.h"

namespace headroom::plan {
namespace {

constexpr double kNever = 0;

/// Layers of each kind on a stage.
struct StageLayers {
  std::int64_t dense = 0;
  std::int64_t sparse = 0;
  std::int64_t again_dense = 0;  ///< Of these, run again as a whole in backward.
  std::int64_t again_sparse = 0;
};

/// Of the first `count` layers of a chunk that begins at `first`, how many are sparse.
class SparseLayers {
 public:
  explicit SparseLayers(const ir::ModelSpec& model) : before_(model.layers.size() + 1) {
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      before_[i + 1] = before_[i] + (model.layers[i].moe ? 1 : 0);
    }
  }
  [[nodiscard]] std::int64_t of(std::int64_t first, std::int64_t count) const {
    return before_[static_cast<std::size_t>(first + count)] -
           before_[static_cast<std::size_t>(first)];
  }

 private:
  std::vector<std::int64_t> before_;
};

/// Of `count` layers of a chunk, those that are run again, which come first.
std::int64_t layers_again(const ir::MegatronPlan& megatron, std::int64_t count) {
  switch (megatron.recompute) {
    case ir::MegatronRecompute::kNone:
    case ir::MegatronRecompute::kSelective:
      return 0;
    case ir::MegatronRecompute::kFullUniform:
      return count;
    case ir::MegatronRecompute::kFullBlock:
      return std::min(count, megatron.recompute_layers);
  }
  return 0;
}

/// Forward and backward without, and with what is run again.
struct StageTimes {
  double plain = 0;
  double again = 0;
  [[nodiscard]] double whole() const { return plain + again; }
};

StageLayers all_layers(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  StageLayers found;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const bool again = plan.recompute != ir::Recompute::kNone &&
                       static_cast<std::int64_t>(i) % plan.recompute_every == 0;
    const bool sparse = model.layers[i].moe;
    ++(sparse ? found.sparse : found.dense);
    found.again_sparse += again && sparse ? 1 : 0;
    found.again_dense += again && !sparse ? 1 : 0;
  }
  return found;
}

/// The layers of every stage.
std::vector<StageLayers> layers_of_stages(const ir::ModelSpec& model,
                                          const ir::ParallelPlan& plan) {
  if (!plan.megatron) {
    return {all_layers(model, plan)};
  }
  const ir::MegatronPlan& megatron = *plan.megatron;
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const SparseLayers sparse(model);
  std::vector<StageLayers> stages(static_cast<std::size_t>(megatron.pipeline));
  std::int64_t first = 0;
  for (std::int64_t chunk = 0; chunk < ir::chunks_per_stage(megatron, layers); ++chunk) {
    for (std::int64_t stage = 0; stage < megatron.pipeline; ++stage) {
      const std::int64_t count =
          ir::chunk_layer_count(megatron, layers, {.stage = stage, .chunk = chunk});
      const std::int64_t again = layers_again(megatron, count);
      const std::int64_t experts = sparse.of(first, count);
      const std::int64_t experts_again = sparse.of(first, again);
      StageLayers& own = stages[static_cast<std::size_t>(stage)];
      own.dense += count - experts;
      own.sparse += experts;
      own.again_dense += again - experts_again;
      own.again_sparse += experts_again;
      first += count;
    }
  }
  return stages;
}

/// What a layer's backward runs again of its forward.
double selective_seconds(const ir::ParallelPlan& plan, const LayerTimes& layer) {
  if (!plan.megatron || plan.megatron->recompute != ir::MegatronRecompute::kSelective) {
    return kNever;
  }
  const ir::MegatronModules modules = ir::recomputed_modules(*plan.megatron);
  return (modules.core_attention ? layer.core_attention.value() : kNever) +
         (modules.norms ? layer.norms.value() : kNever) +
         (modules.mlp ? layer.mlp.value() : kNever);
}

/// What the layers of a stage take.
StageTimes stage_times(const ir::ParallelPlan& plan, const BlockTimes& blocks,
                       const StageLayers& layers) {
  const auto times = [](std::int64_t count, double seconds) {
    return static_cast<double>(count) * seconds;
  };
  const auto both = [](const LayerTimes& layer) {
    return (layer.forward + layer.backward).value();
  };
  StageTimes result;
  result.plain =
      times(layers.dense, both(blocks.dense)) + times(layers.sparse, both(blocks.sparse));
  result.again = times(layers.again_dense, blocks.dense.forward.value()) +
                 times(layers.again_sparse, blocks.sparse.forward.value()) +
                 times(layers.dense, selective_seconds(plan, blocks.dense)) +
                 times(layers.sparse, selective_seconds(plan, blocks.sparse));
  if (plan.megatron && plan.megatron->pipeline > 1 && plan.megatron->layers_per_chunk == 0) {
    result.plain += 2 * blocks.transfer.value();  // Interleaved stages send beside their work.
  }
  return result;
}

/// The parameters of the stage that has most.
struct HeldParameters {
  double dense = 0;
  double experts = 0;
};

HeldParameters held_parameters(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                               const BlockTimes& blocks) {
  const std::vector<StageLayers> stages = layers_of_stages(model, plan);
  const bool both = !model.tied_embeddings && stages.size() == 1;
  HeldParameters most;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const StageLayers& own = stages[stage];
    const std::int64_t tables = stage == 0 || stage + 1 == stages.size() ? (both ? 2 : 1) : 0;
    const HeldParameters held{
        .dense = static_cast<double>(own.dense * blocks.dense_parameters +
                                     own.sparse * blocks.sparse_parameters +
                                     tables * blocks.table_parameters),
        .experts = static_cast<double>(own.sparse * blocks.expert_parameters)};
    if (held.dense + held.experts > most.dense + most.experts) {
      most = held;
    }
  }
  return most;
}

Seconds collective(const cost::Machine& machine, ir::CollectiveKind kind, double bytes,
                   ir::RankGroup group) {
  if (group.size <= 1 || bytes < 1) {
    return Seconds{0};
  }
  return cost::work_time(
      machine.performance, machine.topology,
      ir::CollectiveShape{.kind = kind, .bytes = static_cast<std::int64_t>(bytes), .group = group});
}

Seconds beyond(Seconds time, Seconds hidden) {
  return std::max(Seconds{0}, Seconds{time.value() - hidden.value()});
}

Seconds moved(const cost::Machine& machine, double bytes) {
  return cost::work_time(machine.performance, machine.topology,
                         ir::TrafficShape{.bytes = static_cast<std::int64_t>(bytes)});
}

Seconds copied(const cost::Machine& machine, ir::CopyKind kind, double bytes) {
  return cost::work_time(machine.performance, machine.topology,
                         ir::CopyShape{.kind = kind, .bytes = static_cast<std::int64_t>(bytes)});
}

/// Bytes that an AdamW step reads and writes for each parameter: fp32 gradient, master copy and two
/// moments read, three of them and the 16-bit parameter written.
constexpr double kAdamBytes = 4 + 3 * 4 + 3 * 4 + 2;

Seconds adam_seconds(const cost::Machine& machine, double parameters) {
  return moved(machine, parameters * kAdamBytes);
}

/// Model chunks of a stage.
double chunks_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  return plan.megatron ? static_cast<double>(ir::chunks_per_stage(*plan.megatron, layers)) : 1;
}

/// What ZeRO and FSDP move and where their optimizer runs.
struct ShardedForm {
  double shards = 1;     ///< Ranks that share states.
  bool gathers = false;  ///< Parameters are gathered layer by layer, each micro-batch.
  bool gathers_again = false;
  bool scatters = false;  ///< Gradients are reduced to shards, each micro-batch.
  bool host_optimizer = false;
  bool host_parameters = false;
};

ShardedForm sharded_form(const ir::ParallelPlan& plan) {
  ShardedForm form;
  const auto world = static_cast<double>(plan.world);
  if (plan.runtime == ir::RuntimeKind::kFsdp) {
    const ir::FsdpPlan fsdp = plan.fsdp.value_or(ir::FsdpPlan{});
    form = {.shards = world / static_cast<double>(fsdp.replicas),
            .gathers = true,
            .gathers_again = fsdp.reshard_after_forward,
            .scatters = true,
            .host_optimizer = fsdp.cpu_offload,
            .host_parameters = fsdp.cpu_offload};
  } else if (plan.zero) {
    form = {.shards = plan.zero->stage > 0 ? world : 1,
            .gathers = plan.zero->stage == 3,
            .gathers_again = plan.zero->stage == 3,
            .scatters = plan.zero->stage >= 2,
            .host_optimizer = plan.zero->offload_optimizer != ir::OffloadDevice::kNone,
            .host_parameters = plan.zero->offload_param != ir::OffloadDevice::kNone};
  }
  return form;
}

}  // namespace

PipelineParts pipeline_parts(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                             const BlockTimes& blocks) {
  const std::vector<StageLayers> stages = layers_of_stages(model, plan);
  StageTimes slowest;
  double sum = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    StageTimes one = stage_times(plan, blocks, stages[stage]);
    if (stage == 0) {
      one.plain += blocks.embedding.value();
    }
    if (stage + 1 == stages.size()) {
      const auto form = plan.megatron ? static_cast<std::size_t>(plan.megatron->cross_entropy) : 0;
      one.plain += blocks.head[form].value();
    }
    sum += one.whole();
    if (one.whole() > slowest.whole()) {
      slowest = one;
    }
  }
  const double count = static_cast<double>(plan.accumulation);
  return {.forward_backward = Seconds{count * slowest.plain},
          .recomputation = Seconds{count * slowest.again},
          .bubble = Seconds{(sum - slowest.whole()) / chunks_of(model, plan)},
          .micro_batch = Seconds{slowest.whole()}};
}

ExchangeTimes::ExchangeTimes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                             const BlockTimes& blocks, const cost::Machine& machine) {
  const HeldParameters held = held_parameters(model, plan, blocks);
  const double parameters = held.dense + held.experts;
  if (plan.megatron) {
    const ir::MegatronPlan& megatron = *plan.megatron;
    const std::int64_t cut = megatron.expert_tensor > 0 ? megatron.expert_tensor : megatron.tensor;
    const ir::RankGroup data{.size = plan.world / (megatron.tensor * megatron.pipeline),
                             .stride = megatron.tensor};
    const ir::RankGroup experts{.size = plan.world / (cut * megatron.expert * megatron.pipeline),
                                .stride = cut * megatron.expert};
    const double bytes = megatron.fp32_gradients ? 4 : 2;
    const auto both = [&](ir::CollectiveKind kind, double each) {
      return collective(machine, kind, held.dense * each, data) +
             collective(machine, kind, held.experts * each, experts);
    };
    all_reduce_ = both(ir::CollectiveKind::kAllReduce, bytes);
    reduce_scatter_ = both(ir::CollectiveKind::kReduceScatter, bytes);
    gather_ = both(ir::CollectiveKind::kAllGather, 2);
    adam_ = adam_seconds(machine, parameters);
    sharded_adam_ = adam_seconds(machine, held.dense / static_cast<double>(data.size) +
                                              held.experts / static_cast<double>(experts.size));
    accumulation_ = moved(machine, parameters * (2 + 2 * bytes));
    return;
  }
  const ShardedForm form = sharded_form(plan);
  const ir::RankGroup all{.size = plan.world, .stride = 1};
  const ir::RankGroup group{.size = static_cast<std::int64_t>(form.shards), .stride = 1};
  const ir::RankGroup copies{.size = all.size / group.size, .stride = group.size};
  const double reduced = plan.runtime == ir::RuntimeKind::kFsdp ? 4 : 2;
  all_reduce_ = collective(machine, ir::CollectiveKind::kAllReduce, parameters * 2, all);
  reduce_scatter_ =
      collective(machine, ir::CollectiveKind::kReduceScatter, parameters * reduced, group);
  gather_ = collective(machine, ir::CollectiveKind::kAllGather, parameters * 2, group);
  if (form.gathers) {
    replicas_ =
        collective(machine, ir::CollectiveKind::kAllReduce, parameters * 4 / form.shards, copies);
  }
  const double shard = parameters / form.shards;
  adam_ = form.host_optimizer ? copied(machine, ir::CopyKind::kHostWork, shard * kAdamBytes)
                              : adam_seconds(machine, shard);
  if (form.host_optimizer) {
    offload_step_ = copied(machine, ir::CopyKind::kDeviceToHost, shard * 2) +
                    copied(machine, ir::CopyKind::kHostToDevice, shard * 2);
  }
  if (form.host_parameters) {
    offload_micro_batch_ = 2 * copied(machine, ir::CopyKind::kHostToDevice, shard * 2);
  }
}

StepParts ExchangeTimes::megatron_parts(const ir::ParallelPlan& plan,
                                        const PipelineParts& pipeline) const {
  const ir::MegatronPlan& megatron = *plan.megatron;
  // Backward takes about two thirds of a micro-batch.
  const Seconds backward = (2.0 / 3) * pipeline.micro_batch;
  const Seconds forward = (1.0 / 3) * pipeline.micro_batch;
  const Seconds reduce = megatron.distributed_optimizer ? reduce_scatter_ : all_reduce_;
  StepParts parts{.forward_backward = pipeline.forward_backward,
                  .recomputation = pipeline.recomputation,
                  .bubble = pipeline.bubble,
                  .exchange = megatron.overlap_grad_reduce ? beyond(reduce, backward) : reduce,
                  .optimizer = megatron.distributed_optimizer ? sharded_adam_ : adam_,
                  .offload = {}};
  if (megatron.distributed_optimizer) {
    parts.exchange += megatron.overlap_param_gather ? beyond(gather_, forward) : gather_;
  }
  if (!megatron.accumulation_fusion) {
    parts.forward_backward += static_cast<double>(plan.accumulation) * accumulation_;
  }
  return parts;
}

StepParts ExchangeTimes::sharded_parts(const ir::ParallelPlan& plan,
                                       const PipelineParts& pipeline) const {
  const ShardedForm form = sharded_form(plan);
  const double count = static_cast<double>(plan.accumulation);
  StepParts parts{.forward_backward = pipeline.forward_backward,
                  .recomputation = pipeline.recomputation,
                  .bubble = pipeline.bubble,
                  .exchange = {},
                  .optimizer = adam_,
                  .offload = offload_step_};
  if (form.gathers) {
    const Seconds gathers = (form.gathers_again ? 2.0 : 1.0) * gather_;
    parts.exchange = count * beyond(gathers + reduce_scatter_, pipeline.micro_batch) + replicas_;
  } else {
    const Seconds reduce = form.scatters ? reduce_scatter_ : all_reduce_;
    parts.exchange = beyond(reduce, (2.0 / 3) * pipeline.micro_batch);
    if (form.shards > 1) {
      parts.exchange += gather_;
    }
  }
  parts.offload += count * beyond(offload_micro_batch_, pipeline.micro_batch);
  return parts;
}

StepParts ExchangeTimes::parts(const ir::ParallelPlan& plan, const PipelineParts& pipeline) const {
  return plan.megatron ? megatron_parts(plan, pipeline) : sharded_parts(plan, pipeline);
}

StepParts step_parts(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                     const BlockTimes& blocks, const cost::Machine& machine) {
  return ExchangeTimes(model, plan, blocks, machine)
      .parts(plan, pipeline_parts(model, plan, blocks));
}

Seconds least_step(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                   const BlockTimes& blocks) {
  ir::ParallelPlan bare = plan;
  bare.recompute = ir::Recompute::kNone;
  if (bare.megatron) {
    bare.megatron->recompute = ir::MegatronRecompute::kNone;
    bare.megatron->cross_entropy = ir::MegatronCrossEntropy::kTransformerEngine;
  }
  const PipelineParts parts = pipeline_parts(model, bare, blocks);
  return parts.forward_backward + parts.bubble;
}

}  // namespace headroom::plan
