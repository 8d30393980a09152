#include "costmodel/binding_rank.h"
#include "runtimes/megatron/plan.h"

#include <vector>

#include <doctest/doctest.h>

namespace headroom::cost {
namespace {

ir::ModelSpec dense(std::size_t layers) {
  ir::ModelSpec model;
  model.layers.resize(layers);
  return model;
}

std::vector<int> ranks_of(const ir::ParallelPlan& plan, const ir::ModelSpec& model = dense(8)) {
  std::vector<int> ranks;
  for (const ir::Rank rank : binding_ranks(model, plan)) {
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
  plan.runtime = "megatron";
  edit_megatron(plan) = ir::MegatronPlan{};
  plan.mesh = {.tensor = 2, .pipeline = 4, .context = 2};
  plan.world = 32;  // Two data-parallel ranks: eight ranks a stage.
  CHECK(ranks_of(plan) == std::vector{0, 2, 8, 10, 24, 26});
  edit_megatron(plan).pipeline_before_data = true;
  CHECK(ranks_of(plan) == std::vector{0, 2, 4, 6, 12, 14});
  edit_megatron(plan) = ir::MegatronPlan{};
  plan.mesh = {.tensor = 8, .pipeline = 2};
  plan.world = 16;
  CHECK(ranks_of(plan) == std::vector{0, 8});
}

TEST_CASE("binding_ranks: the first stage with so many sparse layers, too") {
  ir::ModelSpec model = dense(8);
  for (std::size_t layer = 3; layer < 8; ++layer) {
    model.layers[layer].moe = true;
  }
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  edit_megatron(plan) = ir::MegatronPlan{};
  plan.mesh = {.pipeline = 8};
  plan.world = 8;
  CHECK(ranks_of(plan, model) == std::vector{0, 1, 3, 7});
  edit_megatron(plan) = ir::MegatronPlan{};
  plan.mesh = {.pipeline = 4};  // 0, 1, 2 and 2 of them.
  plan.world = 4;
  CHECK(ranks_of(plan, model) == std::vector{0, 1, 2, 3});
}

}  // namespace headroom::cost
