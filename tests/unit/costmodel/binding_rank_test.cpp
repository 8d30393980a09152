#include "costmodel/binding_rank.h"

#include <vector>

#include <doctest/doctest.h>

namespace headroom::cost {
namespace {

std::vector<int> ranks_of(const ir::ParallelPlan& plan) {
  std::vector<int> ranks;
  for (const ir::Rank rank : binding_ranks(plan)) {
    ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

TEST_CASE("binding_ranks: one rank where all do the same") {
  ir::ParallelPlan plan;
  plan.world = 64;
  CHECK(ranks_of(plan) == std::vector{0});
}

TEST_CASE("binding_ranks: first, second and last stage, first and last of a ring") {
  ir::ParallelPlan plan;
  plan.runtime = ir::RuntimeKind::kMegatron;
  plan.megatron = ir::MegatronPlan{.tensor = 2, .pipeline = 4, .context = 2};
  plan.world = 32;  // Two data-parallel ranks: eight ranks a stage.
  CHECK(ranks_of(plan) == std::vector{0, 2, 8, 10, 24, 26});
  plan.megatron = ir::MegatronPlan{.tensor = 8, .pipeline = 2};
  plan.world = 16;
  CHECK(ranks_of(plan) == std::vector{0, 8});
}

}  // namespace headroom::cost
