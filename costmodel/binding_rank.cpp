#include "costmodel/binding_rank.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "runtimes/megatron/stage_layers.h"
#include "runtimes/torchtitan/stage_layers.h"

namespace headroom::cost {

namespace {

/// Layers of each rank of torchtitan's pipeline.
std::vector<std::int64_t> layers_of_titan(const ir::ModelSpec& model,
                                          const ir::ParallelPlan& plan) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < plan.titan->pipeline; ++rank) {
    std::int64_t& own = ranks.emplace_back();
    for (const ir::TitanChunk& chunk : ir::titan_chunks(plan, layers, rank)) {
      own += chunk.layers.count;
    }
  }
  return ranks;
}

/// Of ranks with as many layers the first has most micro-batches in flight, the last most weights'
/// gradients put off where backward is split; the second receives what the first does not.
std::vector<ir::Rank> titan_ranks(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  const std::int64_t last = plan.titan->pipeline - 1;
  std::set<std::int64_t> stages = {0, std::min<std::int64_t>(1, last),
                                   std::max<std::int64_t>(last - 1, 0), last};
  const std::vector<std::int64_t> layers = layers_of_titan(model, plan);
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> alike;  // First and last of each.
  for (std::int64_t stage = 0; stage <= last; ++stage) {
    const auto [entry, fresh] =
        alike.try_emplace(layers[static_cast<std::size_t>(stage)], stage, stage);
    entry->second.second = stage;
  }
  for (const auto& [count, ends] : alike) {
    stages.insert({ends.first, ends.second});
  }
  std::vector<ir::Rank> ranks;
  for (const std::int64_t stage : stages) {
    const std::int64_t rank = stage * (plan.world / plan.titan->pipeline);
    ranks.push_back(ir::Rank{static_cast<std::int32_t>(rank)});
  }
  return ranks;
}

}  // namespace

std::vector<ir::Rank> binding_ranks(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  if (plan.rank) {
    return {ir::Rank{static_cast<std::int32_t>(*plan.rank)}};
  }
  if (plan.titan && plan.titan->pipeline > 1 &&
      !ir::unsupported_pipeline(plan, static_cast<std::int64_t>(model.layers.size()))) {
    return titan_ranks(model, plan);
  }
  if (plan.runtime != "megatron" || !plan.megatron) {
    return {ir::Rank{0}};
  }
  const ir::MegatronPlan& megatron = *plan.megatron;
  std::set<std::int64_t> stages = {0, megatron.pipeline > 1 ? std::int64_t{1} : 0,
                                   megatron.pipeline - 1};
  std::set<ir::StageLayers> seen;
  const std::vector<ir::StageLayers> layers = ir::layers_of_stages(model, megatron);
  for (std::size_t stage = 1; stage + 1 < layers.size(); ++stage) {
    if (seen.insert(layers[stage]).second) {
      stages.insert(static_cast<std::int64_t>(stage));
    }
  }
  // Tensor varies fastest, then context.
  const std::int64_t stage_ranks = ir::stage_stride(megatron, plan.world);
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
