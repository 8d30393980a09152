#include "planner/space/search_space.h"

#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "runtimes/megatron/search/axes.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/rated_plans.h"
#include "tests/support/search_models.h"

namespace headroom::plan {
namespace {

using test::a100;
using test::dgx;
using test::h100;
using test::small_model;
using test::tiny_model;

}  // namespace

TEST_CASE("space: every framework has plans where it is named, and takes each of them") {
  const ir::ModelSpec model = small_model();
  SearchQuestion question = test::search_question(model, h100(), dgx(), 8);
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kGpus) = {1};
  constraints.of(Axis::kMicroBatch) = {2};
  for (const std::string_view name : ir::runtime_words()) {
    CAPTURE(name);
    constraints.of(Axis::kRuntime) = parse_axis(Axis::kRuntime, name).value();
    std::uint64_t plans = 0;
    for (const Cell& cell : cells_of(question.space)) {
      const auto choices = choices_of(question.space, cell);
      for (std::uint64_t index = 0; index < cell.choices; ++index, ++plans) {
        const ir::ParallelPlan plan = choices->plan_at(index);
        CHECK(plan.runtime == name);
        CHECK(ir::check_plan(model, plan));
      }
    }
    CHECK(plans > 0);
  }
}

TEST_CASE("space: recipes in 8 bits are in it where the GPU has their products") {
  const ir::ModelSpec model = small_model();
  SearchQuestion question = test::search_question(model, h100(), dgx(), 16);
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = {3};
  constraints.of(Axis::kGpus) = {4};
  constraints.of(Axis::kRecompute) = {0};
  const auto plans = [&](const char* recipes, int major, int minor) {
    question.space.device = {.compute_major = major, .compute_minor = minor};
    constraints.of(Axis::kPrecision) = parse_axis(Axis::kPrecision, recipes).value();
    return count_plans(cells_of(question.space));
  };
  const std::uint64_t usual = plans("bf16", 9, 0);
  CHECK(plans("fp8-delayed", 8, 6) == 0);
  CHECK(plans("fp8-delayed,fp8-tensorwise", 8, 9) == 2 * usual);
  CHECK(plans("fp8-blockwise", 8, 9) == 0);
  CHECK(plans("fp8-blockwise", 9, 0) == usual);
  CHECK(plans("fp8-blockwise", 10, 0) == 0);
  CHECK(plans("fp8-mxfp8", 9, 0) == 0);
  CHECK(plans("fp8-mxfp8", 10, 0) == usual);
  constraints.of(Axis::kRecompute) = {};  // Scales of the steps before are not kept apart.
  CHECK(plans("fp8-delayed", 9, 0) == usual);
  CHECK(plans("fp8-tensorwise", 9, 0) > usual);
  constraints.of(Axis::kRuntime) = {0, 1, 2};
  CHECK(plans("fp8-tensorwise", 9, 0) == 0);
  for (const char* const word : {"fp8-delayed", "fp8-tensorwise", "fp8-blockwise", "fp8-mxfp8"}) {
    const std::int64_t value = parse_axis(Axis::kPrecision, word).value().front();
    CHECK(value_text(Axis::kPrecision, value) == word);
    CHECK(precision_with_recipe(eight_bit_recipe(value)) == value);
  }
  CHECK_FALSE(parse_axis(Axis::kPrecision, "fp8"));
}

TEST_CASE("space: weights are held in 8 bits where that is asked for and can be") {
  const ir::ModelSpec model = small_model();
  SearchQuestion question = test::search_question(model, h100(), dgx(), 16);
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = {3};
  constraints.of(Axis::kGpus) = {4};
  constraints.of(megatron_axes::kDistributedOptimizer) = {1};
  const auto plans = [&](const char* recipes, const char* held) {
    constraints.of(Axis::kPrecision) = parse_axis(Axis::kPrecision, recipes).value();
    constraints.of(megatron_axes::kFp8Parameters) =
        parse_axis(megatron_axes::kFp8Parameters, held).value();
    return count_plans(cells_of(question.space));
  };
  const std::uint64_t usual = plans("fp8-tensorwise", "no");
  CHECK(plans("fp8-tensorwise", "yes") == usual);
  CHECK(plans("fp8-tensorwise", "no,yes") == 2 * usual);
  CHECK(plans("fp8-tensorwise", "any") == 2 * usual);
  CHECK(plans("bf16", "yes") == 0);
  CHECK(plans("bf16,fp8-tensorwise", "any") == 2 * usual + plans("bf16", "no"));
  constraints.of(Axis::kOptimizerOffload) = {1};
  CHECK(plans("fp8-tensorwise", "yes") == 0);
  CHECK(plans("fp8-tensorwise", "no") > 0);
  constraints.of(Axis::kOptimizerOffload) = {};
  constraints.of(megatron_axes::kOffloadModules) =
      parse_axis(megatron_axes::kOffloadModules, "core_attn").value();
  CHECK(plans("fp8-tensorwise", "yes") == 0);
  CHECK(plans("fp8-tensorwise", "no") > 0);
  constraints.of(megatron_axes::kOffloadModules) = {};
  constraints.of(megatron_axes::kDistributedOptimizer) = {0};
  CHECK(plans("fp8-tensorwise", "yes") == 0);
}

TEST_CASE("space: heads are dealt out to context-parallel ranks where that is asked for") {
  const ir::ModelSpec model = small_model();
  SearchQuestion question = test::search_question(model, a100(), dgx(), 16);
  question.space.base.workload.sequence = 1024;
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = {3};
  constraints.of(Axis::kGpus) = {8};
  constraints.of(Axis::kContext) = {1, 2, 4, 8};
  const auto plans = [&](const char* kinds) {
    constraints.of(megatron_axes::kContextExchange) =
        parse_axis(megatron_axes::kContextExchange, kinds).value();
    return count_plans(cells_of(question.space));
  };
  const std::uint64_t ring = plans("p2p");
  const std::uint64_t heads = plans("a2a");
  CHECK(heads > 0);
  CHECK(plans("any") == ring + heads);
  constraints.of(megatron_axes::kContextExchange) = {};
  CHECK(count_plans(cells_of(question.space)) == ring);
  for (const char* const degree : {"1", "8"}) {  // Nobody to deal to, or more ranks than heads.
    constraints.of(Axis::kContext) = parse_axis(Axis::kContext, degree).value();
    CHECK(plans("a2a") == 0);
    CHECK(plans("p2p") > 0);
  }
}

TEST_CASE("space: activations go to the host where that is asked for") {
  const ir::ModelSpec dense = small_model();
  const ir::ModelSpec sparse = tiny_model(4, 1);
  const auto plans = [](const ir::ModelSpec& model, const char* modules, AxisValues recompute) {
    SearchQuestion question = test::search_question(model, a100(), dgx(), 16);
    Constraints& constraints = question.space.constraints;
    constraints.of(Axis::kRuntime) = {3};
    constraints.of(Axis::kGpus) = {4};
    constraints.of(Axis::kAttention) = {0};
    constraints.of(Axis::kRecompute) = std::move(recompute);
    if (modules != nullptr) {
      constraints.of(megatron_axes::kOffloadModules) =
          parse_axis(megatron_axes::kOffloadModules, modules).value();
    }
    return count_plans(cells_of(question.space));
  };
  const AxisValues some = {0, 1};  // None and selective.
  const std::uint64_t usual = plans(dense, nullptr, some);
  CHECK(plans(dense, "none", some) == usual);
  CHECK(plans(dense, "core_attn,core_attn+attn_proj", some) == 2 * usual);
  CHECK(plans(dense, "any", some) == 6 * usual);  // Of twelve sets six have experts or latents.
  CHECK(plans(dense, "attn_proj", some) == 0);    // Not without core_attn.
  CHECK(plans(dense, "moe_act", some) == 0);
  CHECK(plans(dense, "core_attn", {2, 3}) == 0);  // Layers that run again as a whole.
  CHECK(plans(sparse, "moe_act", some) == plans(sparse, nullptr, some));
  CHECK(parse_axis(megatron_axes::kOffloadModules, "attn_proj+core_attn").value() ==
        parse_axis(megatron_axes::kOffloadModules, "core_attn+attn_proj").value());
  CHECK(value_text(megatron_axes::kOffloadModules,
                   value_with({.core_attention = true, .mlp_norm = true})) == "core_attn+mlp_norm");
  CHECK_FALSE(parse_axis(megatron_axes::kOffloadModules, "core_attn+"));
  CHECK_FALSE(parse_axis(megatron_axes::kOffloadModules, "none+core_attn"));
}

}  // namespace headroom::plan
