#include "runtimes/megatron/search/step_time.h"

#include <algorithm>

#include "costmodel/hardware/work_time.h"
#include "runtimes/megatron/plan.h"

namespace headroom::plan {
namespace {

Seconds collective(const cost::Machine& machine, ir::CollectiveKind kind, double bytes,
                   ir::RankGroup group) {
  if (group.ranks() <= 1 || bytes < 1) {
    return Seconds{0};
  }
  return cost::work_time(
      machine.performance, machine.topology,
      ir::CollectiveShape{.kind = kind, .bytes = static_cast<std::int64_t>(bytes), .group = group});
}

/// The exposed part of a communication of all chunks that overlaps passes of `pass` seconds per
/// micro-batch, and the time that it takes from these passes. At least `edge` is exposed: the
/// reduction of what backward ends with, or the gather of what forward begins with.
Seconds shown(Seconds exchange, Seconds edge, Seconds pass, double chunks, double round,
              double taken) {
  const double all = exchange.value();
  const double own = pass.value() / chunks;
  const double rest = (chunks - 1) * round * own;
  const double late =
      std::max({0.0, std::min(edge.value(), all), all / chunks - own, all - own - rest});
  return Seconds{late + taken * (all - late)};
}

Seconds moved(const cost::Machine& machine, double bytes) {
  return cost::work_time(machine.performance, machine.topology,
                         ir::TrafficShape{.bytes = static_cast<std::int64_t>(bytes)});
}

/// `device`: with the part of the host that one rank of a node has (`cost::performance_in`).
Seconds copied(const cost::DevicePerformance& device, const cost::Machine& machine,
               ir::CopyKind kind, double bytes) {
  return cost::work_time(device, machine.topology,
                         ir::CopyShape{.kind = kind, .bytes = static_cast<std::int64_t>(bytes)});
}

/// Bytes that the optimizer's step reads and writes for each parameter: AdamW's gradient, master
/// copy and two states, of which it writes the last three; the gradient again for the norm; and
/// the copy of masters to the parameters and of 16-bit gradients
/// to fp32.
/// Source: optimizer.cpp of the runtime.
double step_bytes(const ir::ParallelPlan& plan, double gradient) {
  constexpr double kAdam = 7 * 4;
  double bytes = kAdam + gradient;
  if (plan.precision != ir::Precision::kFp32) {
    bytes += 4 + 2;
    bytes += megatron_of(plan).fp32_gradients ? 0 : 2 + 4;
  }
  return bytes;
}

/// The same on the host, where all are fp32. The step reads the gradient, and reads and writes the
/// parameter and two states.
constexpr double kHostBytes = 7 * 4;

/// Groups of ranks that exchange gradients and parameters.
struct ExchangeGroups {
  ir::RankGroup dense;
  ir::RankGroup experts;
};

ExchangeGroups groups_of(const ir::ParallelPlan& plan) {
  const ir::Mesh& mesh = plan.mesh;
  const std::int64_t world = plan.world;
  const std::int64_t cut = expert_tensor_of(mesh);
  const std::int64_t local = cut * mesh.expert;
  const std::int64_t dense = mesh.tensor * mesh.context;
  const std::int64_t experts = world / (local * mesh.pipeline);
  if (!megatron_of(plan).pipeline_before_data) {
    return {.dense = {.size = world / (mesh.tensor * mesh.pipeline), .stride = mesh.tensor},
            .experts = {.size = experts, .stride = local}};
  }
  ir::RankGroup data{.size = world / (dense * mesh.pipeline), .stride = dense * mesh.pipeline};
  if (mesh.context > 1) {
    data = {.size = mesh.context,
            .stride = mesh.tensor,
            .outer_size = data.size,
            .outer_stride = data.stride};
  }
  return {.dense = data, .experts = {.size = experts, .stride = local * mesh.pipeline}};
}

}  // namespace

ExchangeTimes::ExchangeTimes(const ir::ParallelPlan& plan, const HeldParameters& held,
                             const cost::Machine& machine) {
  const ir::MegatronPlan& megatron = megatron_of(plan);
  const double parameters = held.dense + held.experts;
  const ExchangeGroups groups = groups_of(plan);
  const double shard = held.dense / static_cast<double>(groups.dense.ranks()) +
                       held.experts / static_cast<double>(groups.experts.ranks());
  const double bytes = megatron.fp32_gradients ? 4 : 2;
  const auto both = [&](ir::CollectiveKind kind, double each) {
    return collective(machine, kind, held.dense * each, groups.dense) +
           collective(machine, kind, held.experts * each, groups.experts);
  };
  all_reduce_ = both(ir::CollectiveKind::kAllReduce, bytes);
  reduce_scatter_ = both(ir::CollectiveKind::kReduceScatter, bytes);
  // FP8 weights of layers are gathered in 8 bits, except under mxfp8, which gathers 16 bits.
  const bool eight = megatron.fp8_parameters && megatron.fp8 != ir::MegatronFp8::kMxfp8;
  const double each = eight ? 1 : 2;
  gather_ =
      collective(machine, ir::CollectiveKind::kAllGather,
                 each * (held.dense - held.tables) + 2 * held.tables, groups.dense) +
      collective(machine, ir::CollectiveKind::kAllGather, each * held.experts, groups.experts);
  taken_ = cost::taken_ratio(machine);
  adam_ = moved(machine, parameters * step_bytes(plan, bytes));
  sharded_adam_ = moved(machine, shard * step_bytes(plan, bytes));
  accumulation_ = moved(machine, parameters * (2 + 2 * bytes));
  zero_ = moved(machine, parameters * bytes);
  // The check for NaN reads the gradients; scaling reads and writes them.
  const bool scaled = groups.dense.ranks() > 1;
  check_ = moved(machine, parameters * (scaled ? 3 : 1) * bytes);
  const double table = held.tables > 0 ? held.table : 0;
  const auto last = [&](ir::CollectiveKind kind) {
    return moved(machine, (held.layer + held.layer_experts + table) * 3 * bytes) +
           collective(machine, kind, (held.layer + table) * bytes, groups.dense) +
           collective(machine, kind, held.layer_experts * bytes, groups.experts);
  };
  last_all_reduce_ = last(ir::CollectiveKind::kAllReduce);
  last_reduce_scatter_ = last(ir::CollectiveKind::kReduceScatter);
  const cost::DevicePerformance device = cost::performance_in(machine, plan);
  host_adam_ = copied(device, machine, ir::CopyKind::kDeviceToHost, 4 * shard) +
               copied(device, machine, ir::CopyKind::kHostWork, kHostBytes * shard) +
               copied(device, machine, ir::CopyKind::kHostToDevice, 4 * shard);
}

StepParts ExchangeTimes::parts(const ir::ParallelPlan& plan, const PipelineParts& pipeline) const {
  const ir::MegatronPlan& megatron = megatron_of(plan);
  // Backward takes about two thirds of a micro-batch.
  const Seconds backward = (2.0 / 3) * pipeline.micro_batch;
  const Seconds forward = (1.0 / 3) * pipeline.micro_batch;
  const auto round = static_cast<double>(std::min(plan.mesh.pipeline, plan.workload.accumulation));
  const auto hidden = [&](Seconds exchange, Seconds edge, Seconds pass) {
    return shown(exchange, edge, pass, static_cast<double>(pipeline.chunks), round, taken_);
  };
  // Gathers start with the last bucket of a chunk, so its first layer waits for all of them.
  const Seconds first_gather = (1 / static_cast<double>(pipeline.chunks)) * gather_;
  const Seconds reduce = megatron.distributed_optimizer ? reduce_scatter_ : all_reduce_;
  const Seconds last = megatron.distributed_optimizer ? last_reduce_scatter_ : last_all_reduce_;
  StepParts parts{
      .forward_backward = pipeline.forward_backward + zero_,
      .recomputation = pipeline.recomputation,
      .bubble = pipeline.bubble,
      .exchange = megatron.overlap_grad_reduce ? hidden(reduce, last, backward) : reduce + check_,
      .optimizer = megatron.distributed_optimizer ? sharded_adam_ : adam_,
      .offload = pipeline.copies,
      .launches = {}};
  if (megatron.distributed_optimizer) {
    parts.exchange +=
        megatron.overlap_param_gather ? hidden(gather_, first_gather, forward) : gather_;
  }
  if (megatron.optimizer_offload > 0) {
    parts.optimizer = (1 - megatron.optimizer_offload) * parts.optimizer;
    parts.offload += megatron.optimizer_offload * host_adam_;
  }
  if (!megatron.accumulation_fusion) {
    parts.forward_backward += static_cast<double>(plan.workload.accumulation) * accumulation_;
  }
  return parts;
}

StepParts step_parts(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                     const BlockTimes& blocks, const cost::Machine& machine) {
  const PipelineTimes pipeline(model, plan, blocks);
  return ExchangeTimes(plan, pipeline.held(), machine).parts(plan, pipeline.parts(plan));
}

namespace {

/// `blocks` with the fewest copies that any recomputation leaves. Used if nothing is recomputed.
BlockTimes with_least_copies(BlockTimes blocks) {
  for (LayerTimes* const layer : {&blocks.dense, &blocks.sparse}) {
    for (const HostCopies& copies : layer->copies) {
      layer->copies[0].sent = std::min(layer->copies[0].sent, copies.sent);
      layer->copies[0].fetched = std::min(layer->copies[0].fetched, copies.fetched);
    }
  }
  return blocks;
}

}  // namespace

Seconds least_step(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                   const BlockTimes& blocks) {
  ir::ParallelPlan bare = plan;
  edit_megatron(bare).recompute = ir::MegatronRecompute::kNone;
  const auto cheapest = std::ranges::min_element(blocks.head) - blocks.head.begin();
  edit_megatron(bare).cross_entropy = static_cast<ir::MegatronCrossEntropy>(cheapest);
  edit_megatron(bare).pipeline_before_data = blocks.transfer[1] < blocks.transfer[0];
  const PipelineParts parts = PipelineTimes(model, bare, with_least_copies(blocks)).parts(bare);
  const Seconds least = parts.forward_backward + parts.copies + parts.bubble;
  // Recomputation is added to backward and subtracted from the exposed copies, which may round
  // down.
  constexpr double kRounding = 1 - 1e-12;
  return parts.copies > Seconds{0} ? kRounding * least : least;
}

}  // namespace headroom::plan
