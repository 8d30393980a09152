// The treatment, by each framework, of the precisions, optimizers and adapters that are asked for.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "planner/search/frameworks.h"
#include "planner/space/all_axes.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/registry.h"
#include "tests/support/model_of.h"
#include "tests/support/rated_plans.h"
#include "tests/support/search_models.h"

namespace headroom::plan {
namespace {

using test::dgx;
using test::h100;
using test::small_model;

SearchQuestion question_for(const ir::ModelSpec& model, std::string_view runtimes) {
  SearchQuestion question = test::search_question(model, h100(), dgx(), 8);
  question.space.base.workload.sequence = 512;
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kGpus) = {2};
  constraints.of(Axis::kMicroBatch) = {4};
  if (!runtimes.empty()) {
    constraints.of(Axis::kRuntime) = parse_axis(Axis::kRuntime, runtimes).value();
  }
  return question;
}

/// The values of the space's plans on an axis, in words.
std::set<std::string> texts_of(const SpaceQuestion& question, Axis axis) {
  std::set<std::string> texts;
  for (const Cell& cell : cells_of(question)) {
    const auto choices = choices_of(question, cell);
    for (std::uint64_t index = 0; index < choices->size(); ++index) {
      texts.insert(value_text(axis, value_of(choices->plan_at(index), axis)));
    }
  }
  return texts;
}

const LeftOut* find_left_out(const Space& space, std::string_view runtime) {
  const auto found = std::ranges::find_if(space.left_out, [runtime](const LeftOut& one) {
    return one.framework->runtime() == runtime;
  });
  return found == space.left_out.end() ? nullptr : &*found;
}

using Texts = std::set<std::string>;

}  // namespace

TEST_CASE("space: a framework that refuses a value leaves only the plans with it out") {
  const ir::ModelSpec model = small_model();
  SearchQuestion question = question_for(model, "transformers,megatron");
  question.space.constraints.of(Axis::kOptimizer) =
      parse_axis(Axis::kOptimizer, "adamw,adamw-8bit").value();
  const Space space = space_of(question.space);
  CHECK(texts_of(question.space, Axis::kRuntime) == Texts{"megatron", "transformers"});
  CHECK(texts_of(question.space, Axis::kOptimizer) == Texts{"adamw", "adamw-8bit"});
  const LeftOut* const megatron = find_left_out(space, "megatron");
  REQUIRE(megatron != nullptr);
  REQUIRE(megatron->values.size() == 1);
  CHECK(value_text(Axis::kOptimizer, megatron->values.front().value) == "adamw-8bit");
  CHECK(megatron->reason.find("adamw") != std::string::npos);
  CHECK(find_left_out(space, "transformers") == nullptr);
}

TEST_CASE("space: any optimizer leaves no search without an answer") {
  const ir::ModelSpec model = small_model();
  SearchQuestion question = question_for(model, "");
  question.space.constraints.of(Axis::kOptimizer) = parse_axis(Axis::kOptimizer, "any").value();
  question.space.constraints.of(Axis::kRecompute) = {0};
  const PlanResult found = search(question).value();
  CHECK(found.status == PlanStatus::kOptimal);
  CHECK(found.frameworks.size() >= 5);
}

TEST_CASE("space: frameworks are searched with the AdamW of the programs that start them") {
  const ir::ModelSpec model = small_model();
  for (const auto& [runtime, usual] : {std::pair{"transformers", "adamw-fused"},
                                       {"fsdp", "adamw-fused"},
                                       {"deepspeed", "adamw-fused"},
                                       {"megatron", "adamw"}}) {
    CAPTURE(runtime);
    SearchQuestion question = question_for(model, runtime);
    question.space.constraints.of(Axis::kOffload) = {};
    const auto optimizers = [&] {
      std::set<std::string> names;
      for (const Cell& cell : cells_of(question.space)) {
        if (value_of(cell.plan, Axis::kOffload) <= 0) {  // The host's AdamW is always fused.
          names.insert(std::string(ir::word_of(ir::optimizer_words(), cell.plan.optimizer)));
        }
      }
      return names;
    };
    CHECK(optimizers() == std::set<std::string>{usual});
    question.space.constraints.of(Axis::kOptimizer) = parse_axis(Axis::kOptimizer, "adamw").value();
    CHECK(optimizers() == std::set<std::string>{"adamw"});
  }
}

TEST_CASE("space: bf16 is what fit calls so, and masters are each framework's own") {
  const ir::ModelSpec model = small_model();
  const auto precisions = [&](const char* runtime, const char* asked) {
    SearchQuestion question = question_for(model, runtime);
    question.space.constraints.of(Axis::kPrecision) = parse_axis(Axis::kPrecision, asked).value();
    return texts_of(question.space, Axis::kPrecision);
  };
  CHECK(precisions("transformers", "bf16") == Texts{"bf16"});
  CHECK(precisions("transformers", "bf16-master") == Texts{"bf16-master"});
  CHECK(precisions("transformers", "autocast-bf16") == Texts{"bf16-master"});
  CHECK(precisions("transformers", "bf16-autocast") == Texts{"bf16-autocast"});
  CHECK(precisions("fsdp", "bf16,bf16-master") == Texts{"bf16", "bf16-master"});
  CHECK(precisions("torchtitan", "bf16,bf16-master") == Texts{"bf16", "bf16-master"});
  // They always keep fp32 masters, and take bf16 for bf16-master, as fit does.
  CHECK(precisions("deepspeed", "bf16") == Texts{"bf16-master"});
  CHECK(precisions("megatron", "bf16") == Texts{"bf16-master"});
  // It never keeps masters, so only who names it means that.
  CHECK(precisions("torchtune", "bf16-master") == Texts{"bf16"});
  CHECK(precisions("", "bf16-master") == Texts{"bf16-master"});
  CHECK(precisions("", "bf16") == Texts{"bf16", "bf16-master"});
}

TEST_CASE("space: bf16 shards are stored and gathered in bf16, with masters in fp32") {
  const ir::ModelSpec model = small_model();
  for (const std::string_view asked : {"bf16", "bf16-master", "fp32"}) {
    CAPTURE(asked);
    SearchQuestion question = question_for(model, "fsdp");
    question.space.constraints.of(Axis::kPrecision) = parse_axis(Axis::kPrecision, asked).value();
    for (const Cell& cell : cells_of(question.space)) {
      CHECK(cell.plan.precision == (asked == "bf16" ? ir::Precision::kBf16 : ir::Precision::kFp32));
      CHECK(fsdp_of(cell.plan).param_dtype ==
            (asked == "fp32" ? ir::DType::kFp32 : ir::DType::kBf16));
    }
  }
}

TEST_CASE(
    "space: fp32 shards are gathered in fp16 for fp16 masters, and bounds are those of fp16") {
  const ir::ModelSpec model = small_model();
  SearchQuestion question = question_for(model, "fsdp");
  question.space.constraints.of(Axis::kPrecision) =
      parse_axis(Axis::kPrecision, "fp16-master").value();
  CHECK(texts_of(question.space, Axis::kPrecision) == Texts{"fp16-master"});
  for (const Cell& cell : cells_of(question.space)) {
    CHECK(cell.plan.precision == ir::Precision::kFp32);
    CHECK(fsdp_of(cell.plan).param_dtype == ir::DType::kFp16);
    CHECK(ir::runtime_of(cell.plan).one_rank_alone(cell.plan)->precision == ir::Precision::kFp16);
  }
}

TEST_CASE("space: adapters are trained on frozen weights of 16, 8 or 4 bits") {
  const ir::ModelSpec model = small_model();
  SearchQuestion question = question_for(model, "");
  question.space.base.lora = ir::LoraPlan{.rank = 4, .targets = {}};
  question.space.base.precision = ir::Precision::kBf16;
  CHECK(texts_of(question.space, Axis::kFrozenWeights) == Texts{"16-bit"});
  question.space.constraints.of(Axis::kFrozenWeights) =
      parse_axis(Axis::kFrozenWeights, "any").value();
  CHECK(texts_of(question.space, Axis::kFrozenWeights) == Texts{"16-bit", "4-bit", "8-bit"});
  const Space space = space_of(question.space);
  for (const Cell& cell : space.cells) {
    CHECK(cell.plan.lora.has_value());
    CHECK(cell.plan.runtime != "megatron");
  }
  const LeftOut* const megatron = find_left_out(space, "megatron");
  REQUIRE(megatron != nullptr);
  CHECK(megatron->values.empty());
  CHECK(megatron->reason == "it has no --lora");
  // Without adapters, weights are not frozen.
  question.space.base.lora.reset();
  CHECK(texts_of(question.space, Axis::kFrozenWeights) == Texts{"16-bit"});
}

TEST_CASE("space: every k-th layer is recomputed, once for each number of layers") {
  ir::ModelSpec model = small_model();
  model.layers.resize(6, model.layers.back());
  SearchQuestion question = question_for(model, "transformers");
  // Six layers: 6, 3, 2 (every third), 2 (every fourth or fifth), 1.
  CHECK(texts_of(question.space, Axis::kRecomputeEvery) == Texts{"1", "2", "3", "6"});
  question.space.constraints.of(Axis::kRecomputeEvery) = {4};
  CHECK(texts_of(question.space, Axis::kRecomputeEvery) == Texts{"4"});
  CHECK(texts_of(question.space, Axis::kRecompute) == Texts{"full"});
}

TEST_CASE("search: a better plan of one framework replaces that of a search that ended early") {
  const ir::ModelSpec model = small_model();
  const SearchQuestion question = question_for(model, "transformers,fsdp");
  SearchRecords records;
  PlanResult found = search(question, records).value();
  std::vector<FrameworkBest> rows = best_of_frameworks(question, found, records).value();
  REQUIRE(rows.size() == 2);
  const PlanResult optimal = found;
  take_better(question, rows, found);
  CHECK(found.best->plan == optimal.best->plan);
  // The search might have ended with the slower framework's plan.
  found.best = rows[1].best;
  found.estimate = rows[1].estimate;
  found.status = PlanStatus::kFeasible;
  found.bound = optimal.bound / 2;
  found.passed_over = 0.5;
  SearchQuestion listed = question;
  listed.replays = 2;
  take_better(listed, rows, found);
  CHECK(found.best->plan == rows[1].best->plan);
  take_better(question, rows, found);
  CHECK(found.best->plan == optimal.best->plan);
  CHECK(found.bound == optimal.bound / 2);
  CHECK(found.gap == doctest::Approx(0.5));
  CHECK(found.passed_over == 0);
  CHECK(found.status == PlanStatus::kFeasible);
}

TEST_CASE("search: the best plan of each framework is what it finds alone") {
  const ir::ModelSpec model = small_model();
  const SearchQuestion question = question_for(model, "transformers,deepspeed,fsdp,megatron");
  SearchRecords records;
  const PlanResult found = search(question, records).value();
  const std::vector<FrameworkBest> rows = best_of_frameworks(question, found, records).value();
  REQUIRE(rows.size() == 4);
  CHECK(rows.front().best->plan == found.best->plan);
  double before = 0;
  for (const FrameworkBest& row : rows) {
    CAPTURE(row.framework->runtime());
    const SearchQuestion alone = question_for(model, row.framework->runtime());
    const PlanResult own = search(alone).value();
    REQUIRE(row.best);
    CHECK(row.best->plan == own.best->plan);
    CHECK(row.best->time.total().value() >= before);
    before = row.best->time.total().value();
  }
}

TEST_CASE("search: what cannot be lowered is left out, and the answer says so") {
  // Liger has no kernels for BLOOM's layers.
  const ir::ModelSpec model = test::model_of(R"({"model_type": "bloom", "hidden_size": 256,
      "n_layer": 4, "n_head": 4, "vocab_size": 512, "seq_length": 2048})");
  SearchQuestion question = question_for(model, "transformers");
  question.space.constraints.of(Axis::kLiger) = {0, 1};
  const PlanResult found = search(question).value();
  REQUIRE(found.best);
  CHECK_FALSE(found.best->plan.liger);
  REQUIRE(found.refused.size() == 1);
  CHECK(found.refused.front().framework->runtime() == "transformers");
  CHECK(found.refused.front().error.key == "liger");
  question.space.constraints.of(Axis::kLiger) = {1};
  const Result<PlanResult> none = search(question);
  REQUIRE_FALSE(none);
  CHECK(none.error().key == "liger");
}

}  // namespace headroom::plan
