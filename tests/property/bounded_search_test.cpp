// Searches that may take only some of the memory or the time that they need.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/spec/model_catalogue.h"
#include "planner/search/cell_window.h"
#include "planner/search/search.h"
#include "planner/space/all_axes.h"
#include "runtimes/megatron/search/axes.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/random_question.h"
#include "tests/support/search_models.h"

namespace headroom::plan {
namespace {

/// GPT-3 175B on 1,024 GPUs, with few values of most axes: some ten thousand cells.
SearchQuestion gpt3_question(const ir::ModelSpec& model) {
  SearchQuestion question{.space = {.model = model,
                                    .base = {},
                                    .global_batch = 1536,
                                    .constraints = {},
                                    .device = test::a100().traits},
                          .machine = test::dgx(),
                          .device = test::a100(),
                          .budget = Bytes{0},
                          .pruning = {},
                          .progress = {}};
  ir::ParallelPlan& base = question.space.base;
  base.precision = ir::Precision::kBf16Master;
  base.workload.sequence = 2048;
  base.world = 1024;
  base.allocator.expandable_segments = true;
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = parse_axis(Axis::kRuntime, "megatron").value();
  constraints.of(Axis::kGpus) = {1024};
  constraints.of(Axis::kRecompute) = {0, 1};
  constraints.of(Axis::kContext) = {1, 2};
  return question;
}

void check_same(const PlanResult& some, const PlanResult& all) {
  CHECK(some.status == all.status);
  CHECK(some.space == all.space);
  CHECK(some.gap == all.gap);
  REQUIRE(some.best.has_value() == all.best.has_value());
  if (all.best) {
    CHECK(some.best->plan == all.best->plan);
    CHECK(some.best->number == all.best->number);
    CHECK(some.bound == all.bound);
    CHECK(some.step() == all.step());
  } else {
    REQUIRE(some.leanest.has_value() == all.leanest.has_value());
    CHECK((!all.leanest || some.leanest->peak == all.leanest->peak));
  }
}

}  // namespace

TEST_CASE("search: with room for few groups of plans, the answer is the same") {
  test::Random random = test::seeded_random(601);
  CAPTURE(random.seed());
  const ir::ModelSpec model = test::small_model();
  int walked_again = 0;
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    SearchQuestion question = test::random_megatron_question(random, model);
    question.objective = random.pick(std::vector<Objective>{
        Objective::kThroughput, Objective::kMemory, Objective::kGpus, Objective::kCost});
    if (test::kSanitized) {
      question.objective = Objective::kThroughput;
      question.space.constraints.of(Axis::kRecompute) = {0, 1};
    }
    question.budget = Bytes{random.between(600, 8000) << 20};
    const PlanResult all = search(question).value();
    question.memory = Bytes{1};
    std::uint64_t walks = 0;
    question.progress = [&](const SearchProgress& now) { walks += now.listing ? 1 : 0; };
    const PlanResult some = search(question).value();
    check_same(some, all);
    CHECK_FALSE(some.cut);
    walked_again += walks > 1 ? 1 : 0;
    if (test::kSanitized && walked_again > 0)
      break;
  }
  CHECK(walked_again > 0);
}

TEST_CASE("search: a space without room is searched with its usual values first, then whole") {
  const ir::ModelSpec model = ir::load_model(test::kConfigs + "/models", "gpt3-175b").value();
  SearchQuestion question = gpt3_question(model);
  question.space.constraints.of(megatron_axes::kTpCommOverlap) = {0, 1};
  if (test::kSanitized) {
    question.space.constraints.of(Axis::kContext) = {1};
    question.space.constraints.of(Axis::kTensor) = {8};
  }
  const PlanResult all = search(question).value();
  REQUIRE(all.best);
  question.memory = Bytes{std::int64_t{6} << 20};  // Some three thousand cells.
  const PlanResult some = search(question).value();
  check_same(some, all);
}

TEST_CASE("window: what has no room is above what is kept, and comes in the next windows") {
  const ir::ModelSpec model = ir::load_model(test::kConfigs + "/models", "gpt3-175b").value();
  const SearchQuestion question = gpt3_question(model);
  SearchRecords records;
  const SearchInputs inputs{.question = question, .device = question.device, .records = records};
  SearchState state{
      .question = question, .evaluators = {}, .refused = {}, .lowered = records.lowered};
  const CellWindow whole = window_of(state, inputs, {});
  CHECK_FALSE(whole.left);
  CHECK(whole.plans > whole.walked);
  std::vector<Worth> bounds;
  std::optional<Worth> after;
  int windows = 0;
  do {
    const CellWindow window = window_of(state, inputs, {.after = after, .most = 3000});
    CHECK(window.plans == whole.plans);
    for (const BoundedCell& cell : window.cells) {
      CHECK((!after || cell.bound > *after));
      CHECK((!window.last || cell.bound <= *window.last));
      bounds.push_back(cell.bound);
    }
    after = window.last;
    ++windows;
  } while (after);
  CHECK(windows > 2);
  std::vector<Worth> expected;
  for (const BoundedCell& cell : whole.cells) {
    expected.push_back(cell.bound);
  }
  std::ranges::sort(bounds);
  std::ranges::sort(expected);
  CHECK(bounds == expected);
}

TEST_CASE("search: when the time is over, the bound is that of what is open") {
  const ir::ModelSpec model = test::small_model();
  test::Random random = test::seeded_random(603);
  CAPTURE(random.seed());
  SearchQuestion question = test::random_megatron_question(random, model);
  question.budget = Bytes{std::int64_t{8} << 30};
  const PlanResult whole = search(question).value();
  REQUIRE(whole.best);
  std::atomic<bool> asked = false;
  question.stop.flag = &asked;
  question.progress = [&](const SearchProgress& now) {
    asked = now.listing;
  };  // Listed, and no more.
  const PlanResult none = search(question).value();
  CHECK(none.status == PlanStatus::kUnknown);
  CHECK_FALSE(none.best);
  CHECK(none.evaluated == 0);
  CHECK(none.gap == 1);
  CHECK_FALSE(none.cut);  // The space is small enough to be listed.
  CHECK(none.space == whole.space);
  CHECK(none.bound > 0);
  CHECK(none.bound <= whole.step().value());
  question.stop = {.flag = nullptr, .deadline = std::chrono::steady_clock::now()};
  const PlanResult late = search(question).value();
  CHECK(late.status == PlanStatus::kUnknown);
  CHECK(late.cut);
}

TEST_CASE("search: a limit of work holds over all windows, and so does its bound") {
  test::Random random = test::seeded_random(605);
  CAPTURE(random.seed());
  const ir::ModelSpec model = test::small_model();
  for (int round = 0; round < (test::kSanitized ? 2 : 6); ++round) {
    CAPTURE(round);
    SearchQuestion question = test::random_megatron_question(random, model);
    question.budget = Bytes{random.between(1500, 8000) << 20};
    const PlanResult whole = search(question).value();
    question.memory = Bytes{1};
    question.work_limit = static_cast<std::uint64_t>(random.between(1, 6));
    const PlanResult some = search(question).value();
    if (whole.best) {
      CHECK(some.status != PlanStatus::kInfeasible);
      CHECK(some.bound <= whole.step().value());
      CHECK((!some.best || some.step() >= whole.step()));
    }
  }
}

TEST_CASE("search: fronts and lists of replays are whole with little memory") {
  test::Random random = test::seeded_random(606);
  CAPTURE(random.seed());
  const ir::ModelSpec model = test::small_model();
  SearchQuestion question = test::random_megatron_question(random, model);
  question.budget = Bytes{std::int64_t{4} << 30};
  question.front = true;
  question.replays = 3;
  if (test::kSanitized) {
    question.space.constraints.of(Axis::kRecompute) = {0};
  }
  const PlanResult all = search(question).value();
  question.memory = Bytes{1};
  const PlanResult some = search(question).value();
  REQUIRE(all.best);
  CHECK(some.best->plan == all.best->plan);
  CHECK(some.front_whole == all.front_whole);
  CHECK(std::ranges::equal(some.front, all.front, {}, &RatedPlan::plan, &RatedPlan::plan));
  REQUIRE(some.replayed.size() == all.replayed.size());
  for (std::size_t i = 0; i < all.replayed.size(); ++i) {
    CHECK(some.replayed[i].plan.plan == all.replayed[i].plan.plan);
  }
}

TEST_CASE("search: the front of a search that is ended begins with its best plan") {
  test::Random random = test::seeded_random(607);
  CAPTURE(random.seed());
  const ir::ModelSpec model = test::small_model();
  SearchQuestion question = test::random_megatron_question(random, model);
  question.budget = Bytes{std::int64_t{4} << 30};
  question.front = true;
  std::atomic<bool> asked = false;
  question.stop.flag = &asked;
  question.progress = [&](const SearchProgress& now) { asked = asked || now.best_seconds > 0; };
  const PlanResult found = search(question).value();
  REQUIRE(found.best);
  REQUIRE_FALSE(found.front.empty());
  CHECK_FALSE(found.front_whole);
  for (const RatedPlan& one : found.front) {
    const bool beaten = found.best->time.total() < one.time.total() &&
                        found.best->peak <= one.peak && found.best->plan.world <= one.plan.world;
    CHECK_FALSE(beaten);
  }
}

TEST_CASE("search: a space whose listing was ended has no bound") {
  const ir::ModelSpec model = ir::load_model(test::kConfigs + "/models", "gpt3-175b").value();
  SearchQuestion question = gpt3_question(model);
  std::atomic<bool> asked = false;
  question.stop.flag = &asked;
  question.progress = [&](const SearchProgress& now) { asked = now.listing; };
  const PlanResult found = search(question).value();
  CHECK(found.status == PlanStatus::kUnknown);
  CHECK(found.cut);
  CHECK(found.bound == 0);
  CHECK(found.gap == 1);
  CHECK(found.space > 0);
}

TEST_CASE("search: a search that is ended keeps the best plan, and says how far it may be off") {
  const ir::ModelSpec model = test::small_model();
  test::Random random = test::seeded_random(604);
  CAPTURE(random.seed());
  SearchQuestion question = test::random_megatron_question(random, model);
  question.budget = Bytes{std::int64_t{8} << 30};
  const double shortest = search(question).value().step().value();
  std::atomic<bool> asked = false;
  question.stop.flag = &asked;
  question.progress = [&](const SearchProgress& now) { asked = asked || now.best_seconds > 0; };
  const PlanResult found = search(question).value();
  REQUIRE(found.best);
  CHECK((found.status == PlanStatus::kFeasible || found.status == PlanStatus::kOptimal));
  CHECK(found.bound <= shortest);
  CHECK(found.step().value() >= shortest);
  CHECK(found.gap == doctest::Approx(1 - found.bound / found.step().value()));
}

}  // namespace headroom::plan
