#include "planner/search/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "model_ir/spec/hf_config.h"
#include "planner/search/evaluator.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/axes.h"
#include "runtimes/megatron/search/plan_memory.h"
#include "runtimes/megatron/search/sampled_blocks.h"
#include "runtimes/megatron/search/step_time.h"
#include "runtimes/plan_check.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/random_question.h"
#include "tests/support/rated_plans.h"
#include "tests/support/search_models.h"

namespace headroom::plan {
namespace {

using test::a100;
using test::dgx;
using test::h100;
using test::random_megatron_question;
using test::small_model;
using test::tiny_model;

PlanResult unreplayed(const SearchQuestion& question) {
  SearchRecords records;
  return search_unreplayed(question, records).value();
}

using test::budget_for_some;
using test::finds_any;
using test::fits;
using test::front_of;
using test::Point;
using test::Rated;

/// Every plan of a space, by the fast path, which plan_memory_test compares with the replay.
std::vector<Rated> every_sampled_plan(const SearchQuestion& question, PlanMemory& memory) {
  std::vector<Rated> all;
  SampledBlocks sampled(question.space.model, question.device, question.machine);
  std::uint64_t number = 0;
  for (const Cell& cell : cells_of(question.space)) {
    const auto choices = choices_of(question.space, cell);
    const BlockTimes blocks = sampled.of(cell.plan).value();
    const Bytes outside = question.device.total - capacity_of(question, cell.plan);
    for (std::uint64_t index = 0; index < cell.choices; ++index, ++number) {
      const ir::ParallelPlan plan = choices->plan_at(index);
      const Bytes peak = memory.peak(plan).value();
      const double seconds =
          step_parts(question.space.model, plan, blocks, question.machine).total().value();
      Worth worth = worth_of(question, plan, seconds, peak);
      worth.number = number;
      all.push_back({.worth = worth,
                     .seconds = seconds,
                     .peak = peak,
                     .gpus = plan.world,
                     .outside = outside});
    }
  }
  return all;
}

/// Some of `all`, at least one.
AxisValues some_of(test::Random& random, const AxisValues& all) {
  AxisValues some;
  for (const std::int64_t value : all) {
    if (random.chance(1, 2)) {
      some.push_back(value);
    }
  }
  return some.empty() ? AxisValues{all[static_cast<std::size_t>(
                            random.between(0, static_cast<std::int64_t>(all.size()) - 1))]}
                      : some;
}

/// A space of at most some hundred plans.
SearchQuestion tiny_question(test::Random& random, const ir::ModelSpec& model) {
  static const cost::Machine machine = cost::load_machine(test::kConfigs, h100()).value();
  SearchQuestion question = random_megatron_question(random, model);
  question.device = h100();
  question.space.device = question.device.traits;
  question.machine = machine;
  question.budget = Bytes{0};
  question.space.base.workload.sequence = 64;
  question.space.global_batch = random.pick<std::int64_t>({4, 8});
  question.objective =
      random.pick<Objective>({Objective::kThroughput, Objective::kGpus, Objective::kMemory,
                              Objective::kCost, Objective::kMicroBatch, Objective::kSequence});
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kGpus) = some_of(random, {1, 2, 4});
  constraints.of(Axis::kTensor) = some_of(random, {1, 2});
  constraints.of(Axis::kContext) = some_of(random, {1, 2});
  constraints.of(Axis::kExpert) = some_of(random, {1, 2});
  constraints.of(Axis::kMicroBatch) = some_of(random, {1, 2});
  constraints.of(Axis::kSequenceParallel) = {};
  constraints.of(megatron_axes::kDistributedOptimizer) = some_of(random, {0, 1});
  constraints.of(megatron_axes::kOverlapGradReduce) = some_of(random, {0, 1});
  constraints.of(megatron_axes::kOverlapParamGather) = some_of(random, {0, 1});
  constraints.of(megatron_axes::kAccumulationFusion) = {1};
  constraints.of(Axis::kLoss) = some_of(random, {0, 2});
  constraints.of(megatron_axes::kLoaderMask) = some_of(random, {0, 1});
  if (random.chance(1, 2)) {
    constraints.of(megatron_axes::kMeshOrder) = some_of(random, {0, 1});
  }
  if (random.chance(1, 3)) {
    constraints.of(Axis::kOptimizerOffload) = some_of(random, {0, 1, 4});
  }
  // Rarely: each set of values of these has programs of its own.
  if (random.chance(1, 12)) {
    constraints.of(Axis::kPrecision) =
        some_of(random, parse_axis(Axis::kPrecision, "bf16,fp8-delayed,fp8-tensorwise").value());
  }
  if (random.chance(1, 12)) {
    constraints.of(megatron_axes::kFp8Parameters) = some_of(random, {0, 1});
  }
  if (random.chance(1, 8)) {
    constraints.of(megatron_axes::kContextExchange) = some_of(random, {0, 1});
  }
  if (random.chance(1, 16)) {  // Tensors that are large enough to go to the host.
    question.space.base.workload.sequence = 4096;
    constraints.of(Axis::kMicroBatch) = some_of(random, {1, 4});
    constraints.of(megatron_axes::kOffloadModules) =
        some_of(random, parse_axis(megatron_axes::kOffloadModules,
                                   "none,core_attn,qkv_linear+core_attn,moe_act,"
                                   "core_attn+attn_proj+expert_fc1")
                            .value());
  }
  // Groups of layers of two kinds would be lowered whole, and there are many selective sets.
  const bool one_kind = model.layers.front() == model.layers.back();
  constraints.of(Axis::kRecompute) =
      some_of(random, one_kind ? AxisValues{0, 2, 3} : AxisValues{0, 3});
  if (random.chance(1, 8)) {
    constraints.of(Axis::kRecompute) = {0, 1};
  }
  return question;
}

std::set<Point> points_of(const std::vector<RatedPlan>& plans) {
  std::set<Point> points;
  for (const RatedPlan& one : plans) {
    points.emplace(one.time.total().value(), one.peak.value(), one.plan.world);
  }
  return points;
}

void compare_all_rules(SearchQuestion question, const std::optional<Rated>& best,
                       const std::set<Point>& front, SearchRecords& records) {
  question.front = true;
  for (unsigned rules = 0; rules < 8; ++rules) {
    question.pruning = {.time_bound = (rules & 1U) != 0,
                        .memory_floor = (rules & 2U) != 0,
                        .dominance = (rules & 4U) != 0};
    CAPTURE(rules);
    const PlanResult found = search_unreplayed(question, records).value();
    CHECK(points_of(found.front) == front);
    CHECK(found.front.size() == front.size());
    CHECK(found.front_whole);
    CHECK(found.front_gap == 0);
    REQUIRE(found.best.has_value() == best.has_value());
    if (!best) {
      CHECK(found.status == PlanStatus::kInfeasible);
      continue;
    }
    const Worth worth =
        worth_of(question, found.best->plan, found.best->time.total().value(), found.best->peak);
    CHECK(worth.first == doctest::Approx(best->worth.first).epsilon(1e-12));
    CHECK(worth.second == doctest::Approx(best->worth.second).epsilon(1e-12));
    CHECK(found.status == PlanStatus::kOptimal);
  }
}

/// Sets a limit of the step time that some of `all` keep, and none in every eighth space; their
/// worths follow.
void set_random_limit(test::Random& random, int space, SearchQuestion& question,
                      std::vector<Rated>& all) {
  const auto tokens = static_cast<double>(question.space.base.workload.sequence);
  const auto last = static_cast<std::int64_t>(all.size()) - 1;
  const Rated& one = all[static_cast<std::size_t>(random.between(0, last))];
  const double longest =
      space % 8 == 3 ? std::ranges::min(all, {}, &Rated::seconds).seconds / 2 : one.seconds;
  question.longest = Seconds{longest / tokens};
  for (Rated& plan : all) {
    if (plan.seconds / tokens > question.longest.value()) {
      plan.worth = Worth{.late = true, .first = plan.seconds / tokens, .number = plan.worth.number};
    }
  }
}

/// Compares searches that have a limit of the step time with brute force.
void compare_in_time(SearchQuestion question, const std::vector<Rated>& all,
                     SearchRecords& records) {
  std::optional<Rated> best;
  bool late = false;
  for (const Rated& one : all) {
    if (!fits(one, question.budget)) {
      continue;
    }
    late = late || one.worth.late;
    if (!one.worth.late && (!best || one.worth < best->worth)) {
      best = one;
    }
  }
  for (const bool pruned : {false, true}) {
    CAPTURE(pruned);
    question.pruning.time_bound = pruned;
    const PlanResult found = search_unreplayed(question, records).value();
    REQUIRE(found.best.has_value() == best.has_value());
    CHECK(found.late == (!best && late));
    if (best) {
      const Worth worth =
          worth_of(question, found.best->plan, found.best->time.total().value(), found.best->peak);
      CHECK_FALSE(worth.late);
      CHECK(worth.first == doctest::Approx(best->worth.first).epsilon(1e-12));
      CHECK(worth.second == doctest::Approx(best->worth.second).epsilon(1e-12));
      CHECK(found.status == PlanStatus::kOptimal);
    } else {
      CHECK(found.status == PlanStatus::kInfeasible);
    }
  }
}

constexpr int kTinySpaces = test::kSanitized ? 8 : 100;  // The number of spaces of each model.

/// Compares searches in many small spaces of `model` with all their plans.
void compare_with_brute_force(const ir::ModelSpec& model, std::uint64_t seed) {
  test::Random random = test::seeded_random(seed);
  CAPTURE(random.seed());
  SearchRecords records;
  auto& memory = records.of<PlanMemory>(model, h100());
  int spaces = 0;
  int fitting = 0;
  for (int round = 0; spaces < kTinySpaces; ++round) {
    CAPTURE(round);
    SearchQuestion question = tiny_question(random, model);
    std::vector<Rated> all = every_sampled_plan(question, memory);
    if (all.empty() || all.size() > 400) {
      continue;
    }
    ++spaces;
    question.budget = budget_for_some(random, all, spaces);
    std::optional<Rated> best;
    for (const Rated& one : all) {
      if (fits(one, question.budget) && (!best || one.worth < best->worth)) {
        best = one;
      }
    }
    fitting += best ? 1 : 0;
    CHECK(finds_any(question, all, records));
    compare_all_rules(question, best, front_of(all, question.budget), records);
    set_random_limit(random, spaces, question, all);
    compare_in_time(question, all, records);
  }
  CHECK(fitting > spaces / 2);
  CHECK(fitting < spaces);
}

}  // namespace

TEST_CASE("search: optimum and front are those of brute force, whatever is pruned: dense") {
  compare_with_brute_force(tiny_model(4, 4), 501);
}

TEST_CASE("search: optimum and front are those of brute force, whatever is pruned: five layers") {
  compare_with_brute_force(tiny_model(5, 5), 502);
}

TEST_CASE("search: optimum and front are those of brute force, whatever is pruned: experts") {
  compare_with_brute_force(tiny_model(4, 1), 503);
}

TEST_CASE("search: the best plan of every runtime is replayed") {
  test::Random random = test::seeded_random(507);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  question.space.constraints.of(Axis::kGpus) = {2};
  question.budget = Bytes{4 * kGiB};
  for (std::int64_t runtime = 0; runtime < 4; ++runtime) {
    question.space.constraints.of(Axis::kRuntime) = {runtime};
    question.space.constraints.of(Axis::kAttention) = {};
    CAPTURE(runtime);
    const PlanResult found = search(question).value();
    REQUIRE(found.best);
    CHECK(found.estimate->verdict != cost::Verdict::kDoesNotFit);
    CHECK(found.best->plan.runtime == value_text(Axis::kRuntime, runtime));
  }
}

TEST_CASE("search: plans behind the best are replayed and listed by their replayed times" *
          doctest::skip(test::kSanitized)) {
  test::Random random = test::seeded_random(509);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  question.budget = Bytes{8 * kGiB};
  const PlanResult one = search(question).value();
  question.replays = 4;
  const PlanResult four = search(question).value();
  REQUIRE(one.best);
  CHECK(one.replays >= 1);
  CHECK(one.replayed.empty());
  CHECK(four.best->plan == one.best->plan);
  REQUIRE(four.replayed.size() == 4);
  CHECK(four.replayed.front().plan.plan == one.best->plan);
  for (std::size_t i = 1; i < four.replayed.size(); ++i) {
    CHECK(four.replayed[i - 1].step <= four.replayed[i].step);
  }
}

TEST_CASE("search: no plan of a small space is faster when replayed than the one that is found") {
  test::Random random = test::seeded_random(515);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  int compared = 0;
  int not_first = 0;
  for (int round = 0; compared < (test::kSanitized ? 3 : 25); ++round) {
    CAPTURE(round);
    SearchQuestion question = random_megatron_question(random, model);
    question.space.base.workload.sequence = 1024;
    Constraints& constraints = question.space.constraints;
    constraints.of(Axis::kGpus) = {random.pick<std::int64_t>({2, 4})};
    constraints.of(Axis::kRecompute) = some_of(random, {0, 2, 3});
    constraints.of(Axis::kMicroBatch) = some_of(random, {1, 2, 4});
    constraints.of(megatron_axes::kOverlapGradReduce) = some_of(random, {0, 1});
    constraints.of(megatron_axes::kAccumulationFusion) = {1};
    constraints.of(Axis::kLoss) = {2};
    constraints.of(megatron_axes::kLoaderMask) = {0};
    const std::vector<Cell> cells = cells_of(question.space);
    if (cells.empty() || count_plans(cells) > 60) {
      continue;
    }
    const PlanResult found = search(question).value();
    double least = INFINITY;
    for (const Cell& cell : cells) {
      const auto choices = choices_of(question.space, cell);
      for (std::uint64_t index = 0; index < cell.choices; ++index) {
        const cost::StepEstimate replayed =
            judged_replay(question, choices->plan_at(index), question.budget, &question.machine)
                .value();
        if (is_accepted(question, replayed)) {
          least = std::min(least, replayed.time->total.value());
        }
      }
    }
    REQUIRE(found.best.has_value() == std::isfinite(least));
    if (found.best) {
      ++compared;
      not_first += found.replays > 1 ? 1 : 0;
      CHECK(found.status == PlanStatus::kOptimal);
      CHECK(found.step().value() == doctest::Approx(least).epsilon(1e-12));
      CHECK(found.bound == found.step().value());
    }
  }
  CHECK(not_first > 0);
}

TEST_CASE("search: stages that lie next to each other send within the node") {
  // Two nodes and two stages: one neighbour is on the other node, or each node has both stages.
  const ir::ModelSpec model = small_model();
  test::Random random = test::seeded_random(512);
  SearchQuestion question = random_megatron_question(random, model);
  question.budget = Bytes{};
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kGpus) = {16};
  constraints.of(Axis::kTensor) = {1};
  constraints.of(Axis::kPipeline) = {2};
  constraints.of(Axis::kChunk) = {0};
  constraints.of(Axis::kMicroBatch) = {1};
  const auto blocks = [&](std::int64_t order) {
    constraints.of(megatron_axes::kMeshOrder) = {order};
    const std::vector<Cell> cells = cells_of(question.space);
    REQUIRE(!cells.empty());
    CHECK(megatron_of(cells.front().plan).pipeline_before_data == (order != 0));
    return block_times(model, cells.front().plan, question.machine, question.device).value();
  };
  const BlockTimes apart = blocks(0);
  CHECK(apart.transfer[1] < apart.transfer[0]);
  CHECK(blocks(1).transfer == apart.transfer);
}

TEST_CASE("search: more GPUs to choose from never make the best step longer") {
  test::Random random = test::seeded_random(508);
  CAPTURE(random.seed());
  const ir::ModelSpec model = tiny_model(4, 4);
  SearchRecords records;
  for (int round = 0; round < (test::kSanitized ? 10 : 100); ++round) {
    SearchQuestion question = tiny_question(random, model);
    question.objective = Objective::kThroughput;
    question.budget = Bytes{};
    double before = 0;
    for (const AxisValues& gpus : {AxisValues{1}, AxisValues{1, 2}, AxisValues{1, 2, 3, 4}}) {
      question.space.constraints.of(Axis::kGpus) = gpus;
      if (cells_of(question.space).empty()) {
        continue;
      }
      const PlanResult found = search_unreplayed(question, records).value();
      if (found.best) {
        const double seconds = found.best->time.total().value();
        CHECK((before == 0 || seconds <= before));
        before = seconds;
      }
    }
  }
}

TEST_CASE("search: threads change neither the answer nor the counts") {
  test::Random random = test::seeded_random(502);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
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

TEST_CASE("search: threads change neither the front nor its counts") {
  test::Random random = test::seeded_random(511);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  question.space.constraints.of(Axis::kGpus) = {2, 4};
  if (test::kSanitized) {
    question.space.constraints.of(Axis::kRecompute) = {0, 1};
  }
  question.budget = Bytes{4 * kGiB};
  question.front = true;
  for (const std::uint64_t limit : {20U, 0U}) {
    if (test::kSanitized && limit == 0) {
      continue;  // The whole front takes half a minute.
    }
    question.work_limit = limit;
    question.threads = 1;
    const PlanResult one = unreplayed(question);
    question.threads = 4;
    const PlanResult four = unreplayed(question);
    CHECK(one.front.size() > 1);
    CHECK(points_of(one.front) == points_of(four.front));
    CHECK(one.evaluated == four.evaluated);
    CHECK(one.front_gap == four.front_gap);
    CHECK(one.front_whole == (limit == 0));
  }
}

TEST_CASE("search: a front that was not finished says how much better a missing plan may be") {
  test::Random random = test::seeded_random(512);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  if (test::kSanitized) {
    question.space.constraints.of(Axis::kGpus) = {2};
    question.space.constraints.of(Axis::kRecompute) = {0, 1};
  }
  question.budget = Bytes{4 * kGiB};
  question.front = true;
  const PlanResult whole = search(question).value();
  for (const std::uint64_t limit : {1U, 5U, 40U}) {
    question.work_limit = limit;
    CAPTURE(limit);
    const PlanResult some = search(question).value();
    REQUIRE(!some.front.empty());
    // A hair above, for the roundings of the ratio.
    const double share = (1 + some.front_gap) * (1 + 1e-12);
    for (const RatedPlan& one : whole.front) {
      CHECK(std::ranges::any_of(some.front, [&](const RatedPlan& known) {
        return known.time.total().value() <= share * one.time.total().value() &&
               static_cast<double>(known.peak.value()) <=
                   share * static_cast<double>(one.peak.value()) &&
               static_cast<double>(known.plan.world) <= share * static_cast<double>(one.plan.world);
      }));
    }
  }
}

TEST_CASE("search: more memory never makes the best step longer") {
  test::Random random = test::seeded_random(503);
  CAPTURE(random.seed());
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  double before = 0;
  for (std::int64_t budget = 1300; budget <= 2600; budget += 325) {
    question.budget = Bytes{budget * kMiB};
    const PlanResult found = search(question).value();
    if (found.best) {
      const double seconds = found.step().value();
      CHECK((before == 0 || seconds <= before));
      before = seconds;
    }
  }
  CHECK(before > 0);
}

TEST_CASE("search: Megatron's optimizers on the host are rated as the replay finds them") {
  test::Random random = test::seeded_random(513);
  CAPTURE(random.seed());
  const ir::ModelSpec model = tiny_model(4, 4);
  SearchQuestion question = tiny_question(random, model);
  question.objective = Objective::kThroughput;
  question.space.base.precision = ir::Precision::kBf16Master;
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kPrecision) = {};
  constraints.of(megatron_axes::kDistributedOptimizer) = {1};
  constraints.of(megatron_axes::kOverlapGradReduce) = {0, 1};
  constraints.of(megatron_axes::kOverlapParamGather) = {0};
  constraints.of(Axis::kOptimizerOffload) = {2, 4};
  cost::HostSpec& node = question.device.host.emplace();
  node.memory = Bytes{1024 * kGiB};
  node.devices = 8;
  const PlanResult found = search(question).value();
  REQUIRE(found.best);
  CHECK(found.best->host == found.estimate->host.bytes);
  node.memory = found.best->host - Bytes{1};
  const PlanResult less = search(question).value();
  CHECK(less.rejected == 0);  // The search knew that plans lacked the host's memory.
  CHECK((!less.best || less.best->host < found.best->host));
  node.memory = Bytes{1};
  const PlanResult none = search(question).value();
  CHECK(!none.best);
  CHECK(none.rejected == 0);
  REQUIRE(none.least_host);
  CHECK(none.least_host->host <= found.best->host);
}

TEST_CASE("search: a limit of work leaves a bound and a gap") {
  test::Random random = test::seeded_random(504);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  question.budget = Bytes{8 * kGiB};
  const PlanResult whole = search(question).value();
  REQUIRE(whole.best);
  question.work_limit = 1;
  const PlanResult limited = search(question).value();
  REQUIRE(limited.best);
  CHECK(limited.bound <= whole.step().value());
  CHECK(whole.bound == whole.step().value());
  CHECK(limited.gap >= 0);
}

}  // namespace headroom::plan
