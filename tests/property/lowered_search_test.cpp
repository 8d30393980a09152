#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "costmodel/host_memory.h"
#include "planner/evaluate/lowered_plan.h"
#include "planner/evaluate/plan_bounds.h"
#include "planner/search/evaluator.h"
#include "runtimes/deepspeed/search/search.h"
#include "runtimes/fsdp/search/search.h"
#include "runtimes/plan_json.h"
#include "tests/support/model_of.h"
#include "tests/support/random.h"
#include "tests/support/rated_plans.h"

/// Plans of the runtimes on transformers' modelling code, which are lowered whole.
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

/// Families whose layers run other kernels, repeat with a period, or stand in two stacks.
std::vector<ir::ModelSpec> lowered_families() {
  return {model_of(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 10, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 512, "max_position_embeddings": 4096})"),
          model_of(R"({"model_type": "bloom", "hidden_size": 256, "n_layer": 5, "n_head": 4,
        "vocab_size": 512, "seq_length": 2048})"),
          model_of(R"({"model_type": "t5", "d_model": 256, "d_ff": 512, "d_kv": 64, "num_layers": 3,
        "num_decoder_layers": 3, "num_heads": 4, "vocab_size": 512})"),
          model_of(R"({"model_type": "gemma2", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 64, "vocab_size": 512, "max_position_embeddings": 4096,
        "sliding_window": 128})"),
          model_of(R"({"model_type": "mixtral", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 512, "max_position_embeddings": 4096, "num_local_experts": 4,
        "num_experts_per_tok": 2})")};
}

/// The frameworks that train transformers' models, and torchtune.
AxisValues lowered_runtimes() {
  return parse_axis(Axis::kRuntime, "transformers,deepspeed,fsdp,torchtune").value();
}

SearchQuestion lowered_question(const Setting& setting, test::Random& random) {
  SearchQuestion asked = test::search_question(setting.model, setting.device, setting.machine, 8);
  asked.space.base.workload.sequence = 64 * random.between(1, 4);
  asked.space.constraints.of(Axis::kRuntime) = lowered_runtimes();
  return asked;
}

/// Asks for what few GPUs need: other number formats, optimizers, adapters on frozen weights that
/// may be quantised, kernels of Liger.
void vary(test::Random& random, SearchQuestion& question) {
  Constraints& constraints = question.space.constraints;
  const auto some = [&random](Axis axis, const char* words) {
    return few_of(random, parse_axis(axis, words).value());
  };
  if (random.chance(1, 3)) {
    question.space.base.lora = ir::LoraPlan{.rank = 4, .targets = {}};
    question.space.base.precision = ir::Precision::kBf16;
    constraints.of(Axis::kFrozenWeights) = some(Axis::kFrozenWeights, "any");
  } else if (random.chance(1, 2)) {
    constraints.of(Axis::kPrecision) =
        some(Axis::kPrecision, "bf16-master,bf16,bf16-autocast,fp16-master,fp32");
  }
  if (random.chance(1, 3)) {
    constraints.of(Axis::kOptimizer) = some(Axis::kOptimizer, "any");
  }
  if (random.chance(1, 4)) {
    constraints.of(Axis::kLiger) = some(Axis::kLiger, "any");
  }
}

/// A space of at most some dozen plans.
void narrow_lowered(test::Random& random, SearchQuestion& question) {
  Constraints& constraints = question.space.constraints;
  vary(random, question);
  constraints.of(Axis::kRuntime) = few_of(random, lowered_runtimes());
  constraints.of(Axis::kGpus) = few_of(random, {1, 2, 4});
  constraints.of(Axis::kAttention) = few_of(random, {2, 3});
  constraints.of(Axis::kMicroBatch) = few_of(random, {1, 2, 4});
  constraints.of(Axis::kOffload) = few_of(random, {0, 1, 2});
  if (random.chance(2, 3)) {
    constraints.of(Axis::kRecomputeEvery) = few_of(random, {1, 2, 3});
  }
  if (constraints.of(Axis::kRuntime) == parse_axis(Axis::kRuntime, "fsdp").value()) {
    constraints.of(fsdp_axes::kVersion) = few_of(random, {1, 2});
  }
  if (constraints.of(Axis::kRuntime) == AxisValues{1}) {
    constraints.of(deepspeed_axes::kZero) = few_of(random, {0, 1, 2, 3});
    if (random.chance(1, 2)) {
      constraints.of(Axis::kOptimizerOffload) = few_of(random, {0, 1, 2, 3, 4});
    }
  }
  question.objective =
      random.pick<Objective>({Objective::kThroughput, Objective::kGpus, Objective::kMemory,
                              Objective::kCost, Objective::kMicroBatch, Objective::kSequence});
}

}  // namespace

TEST_CASE("lowered plans: time and peaks are the replay's, and no bound is above them") {
  test::Random random = test::seeded_random(521);
  CAPTURE(random.seed());
  int compared = 0;
  int offloading = 0;
  int without_host = 0;
  int sampled_plans = 0;
  for (const ir::ModelSpec& model : lowered_families()) {
    for (const char* const gpu : {"a100-80gb", "h100-80gb"}) {
      Setting setting(model, gpu);
      const bool deep = model.layers.size() >= 8;  // Bounds are sampled of these alone.
      for (int round = 0; round < (test::kSanitized && !deep ? 4 : 12); ++round) {
        // Some hosts have room for the processes, and for little else.
        setting.device.host.emplace();
        setting.device.host->memory = Bytes{random.between(1'710, 1'740) * kMiB};
        setting.device.host->memory_per_rank = true;
        SearchQuestion question = lowered_question(setting, random);
        question.space.constraints.of(Axis::kGpus) = {random.pick<std::int64_t>({1, 2, 4, 8, 16})};
        question.space.global_batch = 16 * random.between(1, 4);
        vary(random, question);
        const std::vector<Cell> cells = cells_of(question.space);
        if (cells.empty()) {
          continue;  // None of them has the value that is asked for.
        }
        const Cell& cell = cells[static_cast<std::size_t>(
            random.between(0, static_cast<std::int64_t>(cells.size()) - 1))];
        const ir::ParallelPlan plan = choices_of(question.space, cell)
                                          ->plan_at(static_cast<std::uint64_t>(random.between(
                                              0, static_cast<std::int64_t>(cell.choices) - 1)));
        CAPTURE(ir::to_json(ir::plan_to_json(plan)));
        LoweredRecords records;
        LoweredPlans plans(model, setting.device, setting.machine, records);
        using Convex = AloneBounds::Convex;
        AloneBounds::Samples samples;
        AloneBounds bounds(model, setting.device, setting.machine, samples,
                           plan.runtime == "fsdp" ? Convex::kAlways : Convex::kIfEven);
        const Result<LoweredPlan> made = plans.of(plan, 0);
        if (!made && is_refusal(made.error())) {
          continue;
        }
        const LoweredPlan& lowered = made.value();
        const cost::StepEstimate estimate =
            cost::estimate(model, plan, setting.device, Bytes{}, &setting.machine).value();
        CHECK(lowered.peak == estimate.peak_allocated);
        CHECK(lowered.host == estimate.host.bytes);
        CHECK(lowered.host_fits == (estimate.host_verdict != cost::Verdict::kDoesNotFit));
        CHECK(cost::host_floor(model, plan, setting.device.host).bytes <= lowered.host);
        offloading += estimate.program.host_bytes > 0 ? 1 : 0;
        without_host += lowered.host_fits ? 0 : 1;
        CHECK(lowered.time.total().value() ==
              doctest::Approx(estimate.time->total.value()).epsilon(1e-12));
        CHECK(bounds.least_step(plan) <= lowered.time.total());
        CHECK(bounds.floor(plan) <= lowered.peak);
        if (const auto sampled = bounds.sampled(plan, plans).value()) {
          CHECK(sampled->peak <= lowered.peak);
          CHECK(sampled->step <= lowered.time.total());
          ++sampled_plans;
        }
        CHECK((plan.lora || bounds.floor(cell.plan) > Bytes{0}));  // All may be on the host.
        CHECK(bounds.least_step(cell.plan) <= bounds.least_step(plan));
        // Beside adapters only products of 16 bits count, and LLM.int8() has none.
        CHECK((plan.lora || bounds.least_step(plan) > Seconds{0}));
        ++compared;
      }
    }
  }
  constexpr int kPart = test::kSanitized ? 5 : 1;  // So much less is compared.
  CHECK(compared > 60 / kPart);
  CHECK(sampled_plans > 10 / kPart);
  CHECK(offloading > 20 / kPart);
  CHECK(without_host > 5 / kPart);
  CHECK(without_host < 120);
}

TEST_CASE("lowered plans: preparing quantised weights is a bound that plans reach") {
  const ir::ModelSpec model = model_of(R"({"model_type": "llama", "hidden_size": 512,
      "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "vocab_size": 128000, "max_position_embeddings": 4096})");
  Setting setting(model, "a100-80gb");
  ir::ParallelPlan plan;
  plan.precision = ir::Precision::kBf16;
  plan.lora = ir::LoraPlan{.rank = 4, .targets = {}};
  plan.quant = ir::QuantPlan{};
  AloneBounds::Samples samples;
  LoweredRecords records;
  LoweredPlans plans(model, setting.device, setting.machine, records);
  AloneBounds bounds(model, setting.device, setting.machine, samples);
  std::uint64_t number = 0;
  for (const std::int64_t sequence : {16, 64, 512, 2048}) {
    plan.workload.sequence = sequence;
    for (const ir::Recompute recompute : {ir::Recompute::kNone, ir::Recompute::kFull}) {
      plan.recompute = recompute;
      const LoweredPlan lowered = plans.of(plan, number++).value();
      CHECK(bounds.floor(plan) <= lowered.peak);
      CHECK((sequence > 16 || bounds.floor(plan) == lowered.peak));
    }
  }
}

TEST_CASE("lowered plans: what few layers take at least, all layers take") {
  // The bound of a long model comes from short ones: it is that of the whole one, lowered.
  const Setting setting(lowered_families().front(), "a100-80gb");
  ir::ParallelPlan plan;
  plan.workload.sequence = 128;
  ir::ModelSpec longer = setting.model;
  std::array<double, 3> seconds{};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    longer.layers.resize(3 + i, longer.layers.back());  // Three are lowered as they stand.
    AloneBounds::Samples samples;
    AloneBounds bounds(longer, setting.device, setting.machine, samples);
    seconds.at(i) = bounds.least_step(plan).value();
  }
  longer.layers.resize(40, longer.layers.back());
  AloneBounds::Samples samples;
  AloneBounds bounds(longer, setting.device, setting.machine, samples);
  CHECK(bounds.least_step(plan).value() ==
        doctest::Approx(seconds[0] + 37 * (seconds[1] - seconds[0])).epsilon(1e-9));
  CHECK(seconds[2] - seconds[1] == doctest::Approx(seconds[1] - seconds[0]).epsilon(1e-9));
}

TEST_CASE("search: of plans lowered whole, optimum and front are those of brute force") {
  test::Random random = test::seeded_random(522);
  CAPTURE(random.seed());
  int spaces = 0;
  int fitting = 0;
  std::vector<std::unique_ptr<Setting>> settings;
  for (const ir::ModelSpec& model : lowered_families()) {
    settings.push_back(std::make_unique<Setting>(model, "a100-80gb"));
  }
  std::map<const Setting*, SearchRecords> all_records;  // What earlier rounds have lowered.
  for (int round = 0; spaces < (test::kSanitized ? 5 : 40); ++round) {
    CAPTURE(round);
    const Setting& setting = *settings[static_cast<std::size_t>(round) % settings.size()];
    SearchQuestion question = lowered_question(setting, random);
    narrow_lowered(random, question);
    const std::vector<Rated> all = every_lowered_plan(question);
    if (all.empty() || all.size() > (test::kSanitized ? 30 : 60)) {
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

TEST_CASE("search: with an effort, no plan that fits is called impossible, and every search ends") {
  test::Random random = test::seeded_random(524);
  CAPTURE(random.seed());
  int fitting = 0;
  for (int round = 0; round < (test::kSanitized ? 4 : 24); ++round) {
    CAPTURE(round);
    const Setting setting(lowered_families().front(), "a100-80gb");
    SearchQuestion question = lowered_question(setting, random);
    narrow_lowered(random, question);
    const std::vector<Rated> all = every_lowered_plan(question);
    if (all.empty() || all.size() > 60) {
      continue;
    }
    question.budget = budget_for_some(random, all, round);
    SearchRecords records;
    const PlanResult whole = search_unreplayed(question, records).value();
    fitting += whole.best ? 1 : 0;
    for (const bool any : {false, true}) {
      for (const std::uint64_t effort : {1U, 3'000U, 20'000U, 100'000U}) {
        CAPTURE(any);
        CAPTURE(effort);
        SearchQuestion limited = question;
        limited.any = any;
        limited.objective = any ? Objective::kMemory : question.objective;
        limited.effort = effort;
        SearchRecords own;
        for (SearchRecords* const shared : {&records, &own}) {
          const PlanResult found = search_unreplayed(limited, *shared).value();
          CHECK((found.status != PlanStatus::kInfeasible || !whole.best));
          CHECK((!found.best || whole.best));
        }
      }
    }
  }
  CHECK(fitting > 0);
}

TEST_CASE("search: it ends after its effort at the same place, whatever the number of threads") {
  test::Random random = test::seeded_random(523);
  CAPTURE(random.seed());
  const Setting setting(lowered_families().front(), "a100-80gb");
  SearchQuestion question = lowered_question(setting, random);
  question.space.constraints.of(Axis::kGpus) = {1, 2};
  question.space.constraints.of(Axis::kMicroBatch) = {1, 2};
  question.objective = random.pick<Objective>({Objective::kThroughput, Objective::kMemory});
  const auto answered = [&](std::uint64_t effort, int threads) {
    SearchRecords records;
    question.effort = effort;
    question.threads = threads;
    return search_unreplayed(question, records).value();
  };
  const PlanResult whole = answered(0, 4);
  REQUIRE(whole.status == PlanStatus::kOptimal);
  for (const std::uint64_t effort : {1U, 5'000U, 50'000U}) {
    CAPTURE(effort);
    const PlanResult one = answered(effort, 1);
    const PlanResult four = answered(effort, 4);
    CHECK(one.evaluated == four.evaluated);
    CHECK(one.status == four.status);
    CHECK(one.bound == four.bound);
    CHECK(one.evaluated < whole.evaluated);
    CHECK(one.bound <= whole.bound);
    REQUIRE(one.best.has_value() == four.best.has_value());
    CHECK((!one.best || one.best->plan == four.best->plan));
  }
  const PlanResult enough = answered(UINT64_MAX / 2, 1);
  CHECK(enough.status == PlanStatus::kOptimal);
  CHECK(enough.evaluated == whole.evaluated);
}

}  // namespace headroom::plan
