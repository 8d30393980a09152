#include "costmodel/binding_rank.h"

#include <cstdint>
#include <set>

namespace headroom::cost {

std::vector<ir::Rank> binding_ranks(const ir::ParallelPlan& plan) {
  if (plan.runtime != ir::RuntimeKind::kMegatron || !plan.megatron) {
    return {ir::Rank{0}};
  }
  const ir::MegatronPlan& megatron = *plan.megatron;
  // Order of the grid: tensor, context, data, pipeline, the first varying fastest.
  const std::int64_t stage_ranks = plan.world / megatron.pipeline;
  std::vector<ir::Rank> ranks;
  for (const std::int64_t stage : std::set<std::int64_t>{
           0, megatron.pipeline > 1 ? std::int64_t{1} : 0, megatron.pipeline - 1}) {
    for (const std::int64_t context : std::set<std::int64_t>{0, megatron.context - 1}) {
      const std::int64_t rank = stage * stage_ranks + context * megatron.tensor;
      ranks.push_back(ir::Rank{static_cast<std::int32_t>(rank)});
    }
  }
  return ranks;
}

}  // namespace headroom::cost
