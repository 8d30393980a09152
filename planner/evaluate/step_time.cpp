#include "planner/evaluate/step_time.h"

#include <algorithm>

#include "costmodel/hardware/work_time.h"

namespace headroom::plan {
namespace {

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

/// Bytes that an optimizer step reads and writes for each parameter: the fp32 gradient read, master
/// copy and states read and written, the 16-bit parameter written. Of AdamW two states, of Lion and
/// SGD with momentum one; an 8-bit one takes a byte. The others are priced as AdamW.
double step_bytes(const ir::OptimizerPlan& optimizer) {
  constexpr double kGradient = 4;
  constexpr double kMaster = 2 * 4;
  constexpr double kParameter = 2;
  const bool small = optimizer.form == ir::OptimizerForm::kEightBit ||
                     optimizer.form == ir::OptimizerForm::kPagedEightBit;
  double states = 2;
  if (optimizer.kind == ir::OptimizerKind::kLion) {
    states = 1;
  } else if (optimizer.kind == ir::OptimizerKind::kSgd) {
    states = optimizer.momentum > 0 ? 1 : 0;
  }
  return kGradient + kMaster + 2 * states * (small ? 1 : 4) + kParameter;
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

ExchangeTimes::ExchangeTimes(const ir::ParallelPlan& plan, const HeldParameters& held,
                             const cost::Machine& machine) {
  const double parameters = held.dense + held.experts;
  const double bytes_of_step = step_bytes(plan.optimizer);
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
    adam_ = moved(machine, parameters * bytes_of_step);
    sharded_adam_ = moved(machine, (held.dense / static_cast<double>(data.size) +
                                    held.experts / static_cast<double>(experts.size)) *
                                       bytes_of_step);
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
  adam_ = form.host_optimizer ? copied(machine, ir::CopyKind::kHostWork, shard * bytes_of_step)
                              : moved(machine, shard * bytes_of_step);
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
  const PipelineTimes pipeline(model, plan, blocks);
  return ExchangeTimes(plan, pipeline.held(), machine).parts(plan, pipeline.parts(plan));
}

Seconds least_step(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                   const BlockTimes& blocks) {
  ir::ParallelPlan bare = plan;
  bare.recompute = ir::Recompute::kNone;
  if (bare.megatron) {
    bare.megatron->recompute = ir::MegatronRecompute::kNone;
    bare.megatron->cross_entropy = ir::MegatronCrossEntropy::kTransformerEngine;
  }
  const PipelineParts parts = PipelineTimes(model, bare, blocks).parts(bare);
  return parts.forward_backward + parts.bubble;
}

}  // namespace headroom::plan
