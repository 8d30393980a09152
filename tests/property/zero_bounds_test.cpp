#include <cstdint>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "planner/evaluate/lowered_plan.h"
#include "planner/search/evaluator.h"
#include "runtimes/deepspeed/search/search.h"
#include "runtimes/deepspeed/search/zero_bounds.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"
#include "tests/support/model_of.h"
#include "tests/support/random.h"
#include "tests/support/rated_plans.h"

/// Bounds of DeepSpeed's plans against the plans, lowered whole.
namespace headroom::plan {
namespace {

using test::few_of;
using test::model_of;
using test::Setting;

/// Models with equal layers, of different kernels and sizes.
std::vector<ir::ModelSpec> equal_layers() {
  return {model_of(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 512, "max_position_embeddings": 4096})"),
          model_of(R"({"model_type": "bloom", "hidden_size": 256, "n_layer": 8, "n_head": 4,
        "vocab_size": 2048, "seq_length": 2048})"),
          model_of(R"({"model_type": "mixtral", "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 512, "max_position_embeddings": 4096, "num_local_experts": 4,
        "num_experts_per_tok": 2})")};
}

SearchQuestion zero_question(const Setting& setting, test::Random& random) {
  SearchQuestion asked = test::search_question(setting.model, setting.device, setting.machine, 16);
  asked.space.base.workload.sequence = 64 * random.between(1, 8);
  Constraints& constraints = asked.space.constraints;
  constraints.of(Axis::kRuntime) = parse_axis(Axis::kRuntime, "deepspeed").value();
  constraints.of(Axis::kGpus) = {random.pick<std::int64_t>({2, 4, 8})};
  constraints.of(Axis::kMicroBatch) = few_of(random, {1, 2, 4});
  constraints.of(Axis::kPrecision) =
      few_of(random, parse_axis(Axis::kPrecision, "bf16-master,fp16-master,fp32").value());
  constraints.of(deepspeed_axes::kZero) = few_of(random, {0, 1, 2, 3});
  if (random.chance(1, 3)) {
    constraints.of(Axis::kOptimizerOffload) = few_of(random, {0, 1, 2, 3, 4});
  }
  return asked;
}

/// Counts over all cells that are compared.
struct Counts {
  int times = 0;  ///< Bounds of the time.
  int tight = 0;  ///< Bounds that are at least half of the time.
  int peaks = 0;  ///< Bounds of the peak by another plan.
  int close = 0;  ///< Bounds that are at least half of the peak.
};

/// Compares the bounds of a cell's plans with the plans.
void compare(const SearchQuestion& question, const Cell& cell, LoweredRecords& records,
             ZeroBounds& bounds, Counts& counts) {
  LoweredPlans plans(question.space.model, question.device, question.machine, records);
  const auto choices = choices_of(question.space, cell);
  const std::vector<std::vector<std::uint64_t>> lighter = bounds.lighter(question.space, cell);
  std::vector<std::optional<LoweredPlan>> lowered;
  for (std::uint64_t index = 0; index < choices->size(); ++index) {
    const ir::ParallelPlan plan = choices->plan_at(index);
    CAPTURE(ir::to_json(ir::plan_to_json(plan)));
    const Result<LoweredPlan> made = plans.of(plan, index);
    REQUIRE((made || is_refusal(made.error())));
    lowered.push_back(made ? std::optional(*made) : std::nullopt);
    if (!made) {
      continue;
    }
    if (const auto sampled = bounds.sampled(plan, plans).value()) {
      CHECK(sampled->peak <= made->peak);
      CHECK(sampled->step <= made->time.total());
      ++counts.times;
      counts.tight += 2.0 * sampled->step >= made->time.total() ? 1 : 0;
    }
    for (const std::uint64_t other : lighter[index]) {
      if (other >= lowered.size() || !lowered[other]) {
        continue;
      }
      const Bytes least = bounds.least_peak(plan, choices->plan_at(other), *lowered[other]);
      CHECK(least <= made->peak);
      counts.peaks += least > Bytes{0} ? 1 : 0;
      counts.close += 2 * least >= made->peak ? 1 : 0;
    }
  }
}

}  // namespace

TEST_CASE("DeepSpeed: no bound of the time or of the peak is above the plan's own") {
  test::Random random = test::seeded_random(523);
  CAPTURE(random.seed());
  Counts counts;
  for (const ir::ModelSpec& model : equal_layers()) {
    const Setting setting(model, "h100-80gb");
    LoweredRecords records;
    AloneBounds::Samples samples;
    ZeroBounds bounds(model, setting.device, setting.machine, samples);
    for (int round = 0; round < (test::kSanitized ? 2 : 8); ++round) {
      CAPTURE(round);
      const SearchQuestion question = zero_question(setting, random);
      const std::vector<Cell> cells = cells_of(question.space);
      for (int i = 0; i < 3 && !cells.empty(); ++i) {
        compare(question, random.pick(cells), records, bounds, counts);
      }
    }
  }
  CHECK(counts.times > 5);
  CHECK(counts.tight > 2);
  CHECK(counts.peaks > 20);
  CHECK(counts.close > 10);
}

}  // namespace headroom::plan
