#include "costmodel/binding_rank.h"

#include <algorithm>
#include <cstdint>
#include <set>

namespace headroom::cost {

namespace {

/// Sparse layers of each stage; chunks of an interleaved schedule are dealt out in turn.
std::vector<std::int64_t> sparse_layers(const ir::ModelSpec& model, const ir::MegatronPlan& plan) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t chunk =
      plan.layers_per_chunk > 0 ? plan.layers_per_chunk : layers / plan.pipeline;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(plan.pipeline), 0);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (model.layers[static_cast<std::size_t>(layer)].moe) {
      ++counts[static_cast<std::size_t>(layer / std::max(chunk, std::int64_t{1}) % plan.pipeline)];
    }
  }
  return counts;
}

}  // namespace

std::vector<ir::Rank> binding_ranks(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  if (plan.runtime != ir::RuntimeKind::kMegatron || !plan.megatron) {
    return {ir::Rank{0}};
  }
  const ir::MegatronPlan& megatron = *plan.megatron;
  std::set<std::int64_t> stages = {0, megatron.pipeline > 1 ? std::int64_t{1} : 0,
                                   megatron.pipeline - 1};
  std::set<std::int64_t> seen;
  const std::vector<std::int64_t> sparse = sparse_layers(model, megatron);
  for (std::size_t stage = 0; stage < sparse.size(); ++stage) {
    if (seen.insert(sparse[stage]).second) {
      stages.insert(static_cast<std::int64_t>(stage));
    }
  }
  // Order of the grid: tensor, context, data, pipeline, the first varying fastest.
  const std::int64_t stage_ranks = plan.world / megatron.pipeline;
  std::vector<ir::Rank> ranks;
  for (const std::int64_t stage : stages) {
    for (const std::int64_t context : std::set<std::int64_t>{0, megatron.context - 1}) {
      const std::int64_t rank = stage * stage_ranks + context * megatron.tensor;
      ranks.push_back(ir::Rank{static_cast<std::int32_t>(rank)});
    }
  }
  return ranks;
}

}  // namespace headroom::cost
