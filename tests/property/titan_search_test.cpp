#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/binding_rank.h"
#include "costmodel/estimate.h"
#include "planner/evaluate/lowered_plan.h"
#include "planner/search/evaluator.h"
#include "planner/space/framework_search.h"
#include "runtimes/plan_json.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/search/axes.h"
#include "runtimes/torchtitan/search/titan_bounds.h"
#include "tests/support/model_of.h"
#include "tests/support/random.h"
#include "tests/support/rated_plans.h"

/// Plans of torchtitan's code: degrees, pipelines, experts.
namespace headroom::plan {
namespace {

using test::budget_for_some;
using test::every_lowered_plan;
using test::few_of;
using test::finds_any;
using test::fits;
using test::front_of;
using test::model_of;
using test::Point;
using test::Rated;
using test::Setting;

/// Llama, Qwen3 (norms of heads, cosine tables), Qwen3 with experts; the last two so large that the
/// GPU is what a step waits for.
std::vector<ir::ModelSpec> titan_families() {
  return {model_of(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
        "vocab_size": 512, "max_position_embeddings": 4096})"),
          model_of(R"({"model_type": "qwen3", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 32, "vocab_size": 512, "max_position_embeddings": 4096,
        "tie_word_embeddings": false})"),
          model_of(R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 4096,
        "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4,
        "head_dim": 128, "vocab_size": 4096, "max_position_embeddings": 4096,
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1024,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false})"),
          model_of(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 13, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 32768, "max_position_embeddings": 4096})")};
}

/// torchtitan, of `Axis::kRuntime`.
constexpr std::int64_t kTitan = 4;

SearchQuestion titan_question(const Setting& setting, test::Random& random, std::int64_t batch) {
  SearchQuestion asked =
      test::search_question(setting.model, setting.device, setting.machine, batch);
  asked.space.base.workload.sequence = random.pick<std::int64_t>({128, 384, 512, 4096});
  asked.space.constraints.of(Axis::kRuntime) = {kTitan};
  return asked;
}

std::vector<std::unique_ptr<Setting>> titan_settings() {
  std::vector<std::unique_ptr<Setting>> all;
  for (const ir::ModelSpec& model : titan_families()) {
    all.push_back(std::make_unique<Setting>(model, "h100-80gb"));
  }
  return all;
}

/// A space of at most some dozen plans.
void narrow_titan(test::Random& random, SearchQuestion& question) {
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = random.chance(1, 4) ? AxisValues{2, kTitan} : AxisValues{kTitan};
  constraints.of(Axis::kGpus) = few_of(random, {1, 2, 4, 8});
  constraints.of(Axis::kTensor) = few_of(random, {1, 2, 4});
  constraints.of(Axis::kPipeline) = few_of(random, {1, 2, 4});
  constraints.of(Axis::kContext) = few_of(random, {1, 2});
  constraints.of(Axis::kReplicas) = few_of(random, {1, 2});
  constraints.of(Axis::kSchedule) = few_of(random, {0, 1, 2, 3, 4, 5});
  constraints.of(Axis::kMicroBatch) = few_of(random, {1, 2, 4});
  constraints.of(titan_axes::kPipelineRuns) = few_of(random, {1, 2});
  constraints.of(Axis::kRecompute) = few_of(random, {0, 1, 4});
  if (random.chance(1, 2)) {
    constraints.of(Axis::kReshard) = few_of(random, {0, 1});
  }
  question.objective =
      random.pick<Objective>({Objective::kThroughput, Objective::kGpus, Objective::kMemory,
                              Objective::kCost, Objective::kMicroBatch, Objective::kSequence});
}

std::vector<Rated> every_titan_plan(const SearchQuestion& question) {
  for (const Cell& cell : cells_of(question.space)) {
    REQUIRE(cell.choices == choices_of(question.space, cell)->size());
  }
  return every_lowered_plan(question);
}

std::uint64_t size_of(const SearchQuestion& question) {
  return count_plans(cells_of(question.space));
}

/// The highest peak of the ranks that `cost::estimate` replays.
Bytes highest_peak(const Setting& setting, const ir::ParallelPlan& plan) {
  Bytes most;
  for (const ir::Rank rank : cost::binding_ranks(setting.model, plan)) {
    ir::ParallelPlan one = plan;
    one.rank = static_cast<std::int64_t>(rank);
    most =
        std::max(most, cost::estimate(setting.model, one, setting.device).value().peak_allocated);
  }
  return most;
}

}  // namespace

TEST_CASE("torchtitan's plans: time and peak are the replay's, and no bound is above them") {
  test::Random random = test::seeded_random(911);
  CAPTURE(random.seed());
  int pipelines = 0;
  int compared = 0;
  for (const std::unique_ptr<Setting>& setting : titan_settings()) {
    for (int round = 0; round < (test::kSanitized ? 12 : 60); ++round) {
      SearchQuestion question = titan_question(*setting, random, 32 * random.between(1, 3));
      question.space.constraints.of(Axis::kGpus) = {
          random.pick<std::int64_t>({1, 2, 4, 8, 16, 32})};
      if (random.chance(1, 2)) {
        question.space.constraints.of(Axis::kPipeline) = {2, 4};
      }
      const std::vector<Cell> cells = cells_of(question.space);
      if (cells.empty()) {
        continue;
      }
      const Cell& cell = cells[static_cast<std::size_t>(
          random.between(0, static_cast<std::int64_t>(cells.size()) - 1))];
      const ir::ParallelPlan plan = choices_of(question.space, cell)
                                        ->plan_at(static_cast<std::uint64_t>(random.between(
                                            0, static_cast<std::int64_t>(cell.choices) - 1)));
      CAPTURE(ir::to_json(ir::plan_to_json(plan)));
      SearchRecords records;
      LoweredPlans plans(setting->model, setting->device, setting->machine, records.lowered);
      const auto bounds =
          titan_bounds({.question = question, .device = setting->device, .records = records});
      const LoweredPlan lowered = plans.of(plan, 0).value();
      const cost::StepEstimate estimate =
          cost::estimate(setting->model, plan, setting->device, Bytes{}, &setting->machine).value();
      CHECK(lowered.peak == highest_peak(*setting, plan));
      CHECK(lowered.time.total().value() ==
            doctest::Approx(estimate.time->total.value()).epsilon(1e-12));
      CHECK(bounds->least_step(plan) <= lowered.time.total());
      CHECK(bounds->least_step(plan) > Seconds{0});
      CHECK(bounds->least_of_cell(cell.plan) <= 1.0000001 * bounds->least_step(plan));
      CHECK(bounds->floor(plan) <= lowered.peak);
      CHECK(bounds->sampled(plan, plans).value()->peak <= lowered.peak);
      CHECK(bounds->floor(plan) > Bytes{0});
      pipelines += plan.mesh.pipeline > 1 ? 1 : 0;
      ++compared;
    }
  }
  CHECK(pipelines > compared / 8);
}

TEST_CASE("search: of torchtitan's plans, optimum and front are those of brute force") {
  test::Random random = test::seeded_random(912);
  CAPTURE(random.seed());
  int spaces = 0;
  int fitting = 0;
  const std::vector<std::unique_ptr<Setting>> all_settings = titan_settings();
  std::map<const Setting*, SearchRecords> all_records;  // What earlier rounds have lowered.
  for (int round = 0; spaces < (test::kSanitized ? 6 : 40); ++round) {
    CAPTURE(round);
    const Setting& setting = *all_settings[static_cast<std::size_t>(round) % all_settings.size()];
    SearchQuestion question = titan_question(setting, random, 8);
    narrow_titan(random, question);
    const std::uint64_t size = size_of(question);
    if (size == 0 || size > 60) {
      continue;
    }
    const std::vector<Rated> all = every_titan_plan(question);
    ++spaces;
    question.budget = budget_for_some(random, all, spaces);
    std::optional<Rated> best;
    for (const Rated& one : all) {
      if (fits(one, question.budget) && (!best || one.worth < best->worth)) {
        best = one;
      }
    }
    fitting += best ? 1 : 0;
    SearchRecords& records = all_records[&setting];
    CHECK(finds_any(question, all, records));
    for (const unsigned rules : {0U, 1U, 2U, 3U}) {
      CAPTURE(rules);
      question.pruning = {
          .time_bound = (rules & 1U) != 0, .memory_floor = (rules & 2U) != 0, .dominance = true};
      question.front = false;
      const PlanResult found = search_unreplayed(question, records).value();
      REQUIRE(found.best.has_value() == best.has_value());
      CHECK(found.status == (best ? PlanStatus::kOptimal : PlanStatus::kInfeasible));
      if (best) {
        CHECK(found.best->number == best->worth.number);
        CHECK(found.best->time.total().value() == best->seconds);
      }
      question.front = true;
      std::set<Point> front;
      const PlanResult answer = search_unreplayed(question, records).value();
      for (const RatedPlan& one : answer.front) {
        front.emplace(one.time.total().value(), one.peak.value(), one.plan.world);
      }
      CHECK(front == front_of(all, question.budget));
    }
  }
  CHECK(fitting > spaces / 2);
  CHECK(fitting < spaces);
}

}  // namespace headroom::plan
