#include "runtimes/megatron/memory_terms.h"

#include <cstdint>
#include <set>

#include "model_ir/spec/param_count.h"
#include "runtimes/interface/host_terms.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::ir::megatron {
namespace {

constexpr std::int64_t kRanksOfNode = 8;

/// One buffer of the activations [B S / CP, H] in 16 bits for each of the ten products that
/// overlap.
/// Source: transformer_engine/pytorch/module/base.py, initialize_ub: ten names.
OutsideTerm userbuffers_term(const ModelSpec& model, const ParallelPlan& plan) {
  constexpr std::int64_t kProducts = 10;
  const std::int64_t tokens =
      plan.workload.micro_batch * plan.workload.sequence / plan.mesh.context;
  const Bytes bytes{kProducts * tokens * model.hidden * 2};
  return {.name = "tensor-parallel userbuffers",
          .bytes = bytes,
          .bound = bytes,
          .basis = Basis::kDerived,
          .source =
              "NVIDIA/TransformerEngine transformer_engine/pytorch/module/base.py, "
              "initialize_ub: ten buffers of B S / CP x H"};
}

/// HybridEP's communication buffers. They hold the tokens of all ranks, [R T, H] in 16 bits with
/// scales per 128 columns; the tokens' probabilities for a node's experts; and the gathered routing
/// map. If there are several nodes, they also hold what is sent to and received from the others,
/// twice. A superchip's NVLink domain is treated as nodes of eight ranks, too, so the network
/// buffers are overestimated there.
/// Source: deepseek-ai/DeepEP, branch hybrid-ep (94a9f8f), csrc/hybrid_ep/buffer/{intranode,
///         internode_doca}.cu, allocate_{dispatch,combine}_buffers; extension/allgather.cu.
OutsideTerm hybrid_ep_term(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t ranks = plan.mesh.expert;
  const std::int64_t nodes = ceil_div(ranks, kRanksOfNode);
  const std::int64_t tokens =
      ceil_div(plan.workload.micro_batch * plan.workload.sequence, plan.mesh.context);
  const std::int64_t own =
      megatron_of(plan).sequence_parallel ? ceil_div(tokens, plan.mesh.tensor) : tokens;
  const std::int64_t experts = model.moe->experts;
  const std::int64_t row = 2 * model.hidden;
  const std::int64_t scales = 4 * (model.hidden / 128);
  const std::int64_t shares = 4 * experts / nodes;
  std::int64_t bytes = ranks * own * (row + scales + shares + experts);
  if (nodes > 1) {
    const std::int64_t others = nodes - 1;
    bytes += own * (row + scales + 4 * experts);  // The send buffer.
    // The receive buffers, and those for the way back.
    bytes += own * others * (row + scales + shares + 2 * (row + shares));
  }
  return {.name = "HybridEP buffers",
          .bytes = Bytes{bytes},
          .bound = Bytes{bytes},
          .basis = Basis::kDerived,
          .source =
              "deepseek-ai/DeepEP hybrid-ep csrc/hybrid_ep/buffer: tokens of all "
              "expert-parallel ranks, and of other nodes"};
}

}  // namespace

std::vector<Rank> highest_ranks(const ModelSpec& model, const ParallelPlan& plan) {
  std::set<std::int64_t> stages = {0, plan.mesh.pipeline > 1 ? std::int64_t{1} : 0,
                                   plan.mesh.pipeline - 1};
  std::set<StageLayers> seen;
  const std::vector<StageLayers> layers = layers_of_stages(model, plan);
  for (std::size_t stage = 1; stage + 1 < layers.size(); ++stage) {
    if (seen.insert(layers[stage]).second) {
      stages.insert(static_cast<std::int64_t>(stage));
    }
  }
  // The tensor-parallel rank varies fastest, then the context-parallel rank.
  const std::int64_t stage_ranks = stage_stride(plan);
  std::vector<Rank> ranks;
  for (const std::int64_t stage : stages) {
    for (const std::int64_t context : std::set<std::int64_t>{0, plan.mesh.context - 1}) {
      const std::int64_t rank = stage * stage_ranks + context * plan.mesh.tensor;
      ranks.push_back(Rank{static_cast<std::int32_t>(rank)});
    }
  }
  return ranks;
}

HeldParameters parameters_of_rank(const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  HeldParameters held = whole_parameters(plan);
  if (megatron.fp8_parameters) {
    // A lower bound: products may read one copy in both directions, and parameters that stay in 16
    // bits are counted with 8, too.
    held.weights.bits = 8;
  }
  if (megatron.precision_aware) {
    // The parameter itself is half of the master copy.
    held.optimizer.bits = 16 + 2 * (megatron.bf16_moments ? 16 : 32);
  }
  if (megatron.optimizer_offload > 0) {
    // Whole parameters go to the host until the offload fraction is reached.
    held.optimizer.bits = 0;
  }
  const std::int64_t ranks = plan.mesh.tensor * plan.mesh.pipeline * plan.mesh.expert;
  held.weights.ranks = held.gradients.ranks = ranks;
  held.optimizer.ranks = megatron.distributed_optimizer ? plan.world : ranks;
  return held;
}

std::vector<OutsideTerm> own_buffers(const ModelSpec& model, const ParallelPlan& plan) {
  std::vector<OutsideTerm> terms;
  if (megatron_of(plan).tp_comm_overlap) {
    terms.push_back(userbuffers_term(model, plan));
  }
  if (megatron_of(plan).dispatcher == MegatronDispatcher::kHybridEp) {
    terms.push_back(hybrid_ep_term(model, plan));
  }
  return terms;
}

HostTerm loader_term() {
  constexpr int kWorkers = 2;
  return data_loaders(
      kWorkers,
      "NVIDIA/Megatron-LM megatron/training/arguments.py, --num-workers: 2; a "
      "forked worker of torch 2.11 shares 424 MiB with its parent and has 10 MiB of "
      "its own (measured)");
}

Bytes optimizer_on_host(const ModelSpec& model, const ParallelPlan& plan) {
  constexpr double kBytes = 16;
  const double parameters = megatron_of(plan).optimizer_offload *
                            static_cast<double>(count_parameters(model).total()) /
                            static_cast<double>(plan.world);
  return Bytes{static_cast<std::int64_t>(kBytes * parameters)};
}

}  // namespace headroom::ir::megatron
