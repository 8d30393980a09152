#include "planner/search/search.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "model_ir/plan/plan_check.h"
#include "model_ir/spec/hf_config.h"
#include "planner/search/cell_search.h"
#include "tests/support/random.h"

namespace headroom::plan {
namespace {

ir::ModelSpec small_model() {
  return ir::parse_hf_config(R"({"hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
    "vocab_size": 512, "max_position_embeddings": 4096, "model_type": "llama"})",
                             "small")
      .value();
}

cost::DeviceSpec a100() {
  return cost::load_device(std::string(HEADROOM_SOURCE_DIR) + "/configs", "a100-80gb").value();
}

const cost::Machine& dgx() {
  static const cost::Machine machine =
      cost::load_machine(std::string(HEADROOM_SOURCE_DIR) + "/configs", a100()).value();
  return machine;
}

/// A space of some hundred plans on a device with little memory.
SearchQuestion random_question(test::Random& random, const ir::ModelSpec& model) {
  SearchQuestion question{
      .space = {.model = model, .base = {}, .global_batch = 16, .constraints = {}},
      .machine = dgx(),
      .device = a100(),
      .budget = {},
      .objective = Objective::kThroughput,
      .pruning = {},
      .threads = 1,
      .work_limit = 0,
      .front = false,
      .stop = nullptr,
      .progress = {}};
  question.space.base.precision = ir::Precision::kBf16Master;
  question.space.base.sequence = 256 * random.between(1, 8);
  question.space.base.allocator.expandable_segments = true;
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = {3};
  constraints.of(Axis::kGpus) = {random.pick<std::int64_t>({2, 4, 8})};
  constraints.of(Axis::kAttention) = {0};
  constraints.of(Axis::kMicroBatch) = {1, 2, 4};
  constraints.of(Axis::kContext) = {1};
  constraints.of(Axis::kOverlapGradReduce) = {random.between(0, 1)};
  constraints.of(Axis::kOverlapParamGather) = {0};
  // What the device loses outside the allocator, and room for some of the plans only.
  question.budget = Bytes{1400 * kMiB + random.between(0, 700) * kMiB};
  return question;
}

/// The best by looking at every plan of the space.
std::optional<Worth> brute_force(const SearchQuestion& question) {
  PlanMemory memory(question.space.model, question.device);
  std::optional<Worth> best;
  std::uint64_t first = 0;
  for (const Cell& cell : cells_of(question.space)) {
    const Choices choices = choices_of(question.space, cell);
    for (std::uint64_t index = 0; index < cell.choices; ++index) {
      const ir::ParallelPlan plan = plan_at(choices, index);
      const BlockTimes blocks = block_times(question.space.model, plan, question.machine);
      const Bytes peak = memory.peak(plan).value();
      const double seconds =
          step_parts(question.space.model, plan, blocks, question.machine).total().value();
      Worth worth = worth_of(question.objective, plan, seconds, peak);
      worth.number = first + index;
      if (peak <= capacity_of(question, plan) && (!best || worth < *best)) {
        best = worth;
      }
    }
    first += cell.choices;
  }
  return best;
}

}  // namespace

TEST_CASE("search: the optimum is that of brute force, whatever is pruned") {
  test::Random random = test::seeded_random(501);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  int fitting = 0;
#ifdef __SANITIZE_ADDRESS__
  constexpr int kRounds = 2;  // Each takes minutes there.
#else
  constexpr int kRounds = 3;
#endif
  for (int round = 0; round < kRounds; ++round) {
    SearchQuestion question = random_question(random, model);
    question.objective = round == 0 ? Objective::kMemory : Objective::kThroughput;
    const std::optional<Worth> expected = brute_force(question);
    fitting += expected ? 1 : 0;
    for (unsigned rules = 0; rules < 8; ++rules) {
      question.pruning = {.time_bound = (rules & 1U) != 0,
                          .memory_floor = (rules & 2U) != 0,
                          .dominance = (rules & 4U) != 0};
      question.threads = 1 + static_cast<int>(rules % 3);
      CAPTURE(round);
      CAPTURE(rules);
      const PlanResult found = search(question).value();
      REQUIRE(found.best.has_value() == expected.has_value());
      if (expected && found.rejected == 0) {
        const Worth worth = worth_of(question.objective, found.best->plan,
                                     found.best->time.total().value(), found.best->peak);
        CHECK(worth.first == doctest::Approx(expected->first).epsilon(1e-12));
        CHECK(found.status == PlanStatus::kOptimal);
        CHECK(found.estimate->verdict != cost::Verdict::kDoesNotFit);
      }
    }
  }
  CHECK(fitting > 0);
}

TEST_CASE("search: the Pareto front is that of brute force") {
  test::Random random = test::seeded_random(507);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_question(random, model);
  question.space.constraints.of(Axis::kGpus) = {2, 4};
  question.space.constraints.of(Axis::kMicroBatch) = {1, 4};
  question.front = true;
  std::vector<std::tuple<double, std::int64_t, std::int64_t>> all;
  PlanMemory memory(model, question.device);
  for (const Cell& cell : cells_of(question.space)) {
    const Choices choices = choices_of(question.space, cell);
    for (std::uint64_t index = 0; index < cell.choices; ++index) {
      const ir::ParallelPlan plan = plan_at(choices, index);
      const BlockTimes blocks = block_times(model, plan, question.machine);
      const Bytes peak = memory.peak(plan).value();
      if (peak <= capacity_of(question, plan)) {
        all.emplace_back(step_parts(model, plan, blocks, question.machine).total().value(),
                         peak.value(), plan.world);
      }
    }
  }
  std::set<std::tuple<double, std::int64_t, std::int64_t>> expected;
  for (const auto& one : all) {
    const bool beaten = std::ranges::any_of(all, [&](const auto& other) {
      return other != one && std::get<0>(other) <= std::get<0>(one) &&
             std::get<1>(other) <= std::get<1>(one) && std::get<2>(other) <= std::get<2>(one);
    });
    if (!beaten) {
      expected.insert(one);
    }
  }
  std::set<std::tuple<double, std::int64_t, std::int64_t>> found;
  const PlanResult answer = search(question).value();
  for (const RatedPlan& one : answer.front) {
    found.emplace(one.time.total().value(), one.peak.value(), one.plan.world);
  }
  CHECK(found == expected);
  CHECK(found.size() > 1);
}

TEST_CASE("search: threads change neither the answer nor the counts") {
  test::Random random = test::seeded_random(502);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_question(random, model);
  const PlanResult one = search(question).value();
  question.threads = 4;
  const PlanResult four = search(question).value();
  CHECK(one.best.has_value() == four.best.has_value());
  CHECK(one.evaluated == four.evaluated);
  CHECK(one.space == four.space);
  if (one.best) {
    CHECK(one.best->plan == four.best->plan);
  }
}

TEST_CASE("search: more memory never makes the best step longer") {
  test::Random random = test::seeded_random(503);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_question(random, model);
  double before = 0;
  for (std::int64_t budget = 1300; budget <= 2600; budget += 325) {
    question.budget = Bytes{budget * kMiB};
    const PlanResult found = search(question).value();
    if (found.best) {
      const double seconds = found.best->time.total().value();
      CHECK((before == 0 || seconds <= before));
      before = seconds;
    }
  }
  CHECK(before > 0);
}

TEST_CASE("search: a limit of work leaves a bound and a gap") {
  test::Random random = test::seeded_random(504);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_question(random, model);
  question.budget = Bytes{8 * kGiB};
  const PlanResult whole = search(question).value();
  REQUIRE(whole.best);
  question.work_limit = 1;
  const PlanResult limited = search(question).value();
  REQUIRE(limited.best);
  CHECK(limited.bound_seconds <= whole.best->time.total().value());
  CHECK(limited.gap >= 0);
}

TEST_CASE("search: constraints that contradict each other are named") {
  test::Random random = test::seeded_random(505);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_question(random, model);
  question.space.constraints.of(Axis::kGpus) = {4};
  question.space.constraints.of(Axis::kTensor) = {4};
  question.space.constraints.of(Axis::kPipeline) = {4};
  const Result<PlanResult> found = search(question);
  REQUIRE(!found);
  CHECK(found.error().got.find("--tp 4") != std::string::npos);
}

TEST_CASE("space: every cell's plans are accepted, and counted") {
  test::Random random = test::seeded_random(506);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_question(random, model);
  question.space.constraints.of(Axis::kRuntime) = {};
  std::uint64_t plans = 0;
  for (const Cell& cell : cells_of(question.space)) {
    const Choices choices = choices_of(question.space, cell);
    CHECK(cell.choices == choices.recomputations.size() * choices.switches.size());
    for (std::uint64_t index = 0; index < cell.choices; ++index) {
      CHECK(ir::check_plan(model, plan_at(choices, index)));
    }
    plans += cell.choices;
  }
  CHECK(plans == count_plans(cells_of(question.space)));
  CHECK(plans > 100);
}

}  // namespace headroom::plan
