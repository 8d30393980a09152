#include "runtimes/torchtitan/highest_ranks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/stage_layers.h"

namespace headroom::ir::torchtitan {
namespace {

/// Layers of each rank of torchtitan's pipeline.
std::vector<std::int64_t> layers_of_titan(const ModelSpec& model, const ParallelPlan& plan) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < plan.mesh.pipeline; ++rank) {
    std::int64_t& own = ranks.emplace_back();
    for (const TitanChunk& chunk : titan_chunks(plan, layers, rank)) {
      own += chunk.layers.count;
    }
  }
  return ranks;
}

}  // namespace

std::vector<Rank> highest_ranks(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t last = plan.mesh.pipeline - 1;
  std::set<std::int64_t> stages = {0, std::min<std::int64_t>(1, last),
                                   std::max<std::int64_t>(last - 1, 0), last};
  const std::vector<std::int64_t> layers = layers_of_titan(model, plan);
  // First and last rank for each number of layers.
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> alike;
  for (std::int64_t stage = 0; stage <= last; ++stage) {
    const auto [entry, fresh] =
        alike.try_emplace(layers[static_cast<std::size_t>(stage)], stage, stage);
    entry->second.second = stage;
  }
  for (const auto& [count, ends] : alike) {
    stages.insert({ends.first, ends.second});
  }
  std::vector<Rank> ranks;
  for (const std::int64_t stage : stages) {
    const std::int64_t rank = stage * (plan.world / plan.mesh.pipeline);
    ranks.push_back(Rank{static_cast<std::int32_t>(rank)});
  }
  return ranks;
}

}  // namespace headroom::ir::torchtitan
