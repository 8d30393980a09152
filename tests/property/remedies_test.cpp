#include "costmodel/remedies.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/confidence.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/remedy_judge.h"
#include "costmodel/residuals.h"
#include "runtimes/registry.h"
#include "tests/support/configs.h"
#include "tests/support/model_of.h"
#include "tests/support/random.h"

/// Remedies against all combinations of changes.
namespace headroom::cost {
namespace {

ir::ModelSpec small_model() {
  return test::model_of(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 768,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
      "vocab_size": 4000, "max_position_embeddings": 4096, "tie_word_embeddings": false})");
}

ir::ParallelPlan random_question(test::Random& random) {
  ir::ParallelPlan plan;
  plan.workload.micro_batch = std::int64_t{1} << random.between(0, 3);
  plan.workload.sequence = 128 * random.between(1, 4);
  plan.precision = random.pick<ir::Precision>(
      {ir::Precision::kFp32, ir::Precision::kBf16, ir::Precision::kAutocastBf16});
  plan.attention =
      random.pick<ir::AttentionKind>({ir::AttentionKind::kSdpa, ir::AttentionKind::kEager});
  if (random.chance(1, 2)) {
    plan.optimizer.form = ir::OptimizerForm::kFused;
  }
  return plan;
}

/// The changes that train the same on the device.
std::vector<Change> plain_changes(const ir::ParallelPlan& plan) {
  std::vector<Change> changes;
  for (const ir::OwnChange& own : ir::changes_of(plan)) {
    const bool plain =
        own.change.kind == Change::Kind::kFree || own.change.kind == Change::Kind::kSlower;
    if (plain && own.change != Change::kSmallerMicroBatch) {
      changes.push_back(own.change);
    }
  }
  return changes;
}

/// The least slowdown of all combinations that fit; nothing if none fits.
std::optional<double> least_slowdown(RemedyJudge& judge) {
  const std::vector<Change> changes = plain_changes(judge.plan());
  std::optional<double> least;
  for (std::uint32_t mask = 0; mask < std::uint32_t{1} << changes.size(); ++mask) {
    std::vector<Change> chosen;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if ((mask >> i & 1U) != 0) {
        chosen.push_back(changes[i]);
      }
    }
    for (std::int64_t size = judge.plan().workload.micro_batch; size >= 1; size /= 2) {
      std::ranges::sort(chosen);
      const std::optional<Remedy> remedy = judge.judge(chosen);
      if (remedy && judge.mends(*remedy)) {
        least = std::min(least.value_or(slowdown_of(*remedy)), slowdown_of(*remedy));
        break;  // Smaller micro-batches are no quicker.
      }
      chosen.push_back(Change::kSmallerMicroBatch);
    }
  }
  return least;
}

}  // namespace

TEST_CASE("property: a combination that fits is found, within a tenth of the quickest") {
  const ir::ModelSpec model = small_model();
  const DeviceSpec device = load_device(test::kConfigs, "a100-40gb").value();
  const Machine machine = load_machine(test::kConfigs, device).value();
  const std::vector<ResidualSet> residuals =
      read_residuals(test::kConfigs + "/accuracy/residuals.json").value();
  int mended = 0;
  for (std::uint64_t seed = 1; seed <= (test::kSanitized ? 4 : 20); ++seed) {
    test::Random random(seed);
    CAPTURE(random.seed());
    const ir::ParallelPlan plan = random_question(random);
    const StepEstimate whole = estimate(model, plan, device).value();
    const Bytes budget{whole.outside_bytes.value() +
                       whole.peak_reserved.value() * random.between(15, 95) / 100};
    // Every second question is judged as `fit` judges: by the chance to fit.
    const Judge by_chance = seed % 2 == 0 ? judge_by(residuals) : Judge{};
    const auto judged = [&](const ir::ParallelPlan& one) {
      StepEstimate replayed = estimate(model, one, device, budget, &machine).value();
      if (by_chance) {
        by_chance(one, replayed);
      }
      return replayed;
    };
    const StepEstimate found = judged(plan);
    if (found.verdict != Verdict::kDoesNotFit) {
      continue;
    }
    const RemedyQuestion question{.model = model,
                                  .plan = plan,
                                  .device = device,
                                  .budget = budget,
                                  .tree = TreeWalk::kNone,
                                  .machine = &machine,
                                  .limit = Seconds{600},
                                  .judge = by_chance};
    const Remedies remedies = find_remedies(question, found);
    RemedyJudge judge(question, found,
                      deadline_after(std::chrono::steady_clock::now(), question.limit, 1));
    const std::optional<double> least = least_slowdown(judge);
    if (!least) {
      continue;
    }
    ++mended;
    double named = 1e9;
    for (const Remedy& remedy : remedies.cheapest) {
      if (judge.mends(remedy) && !trains_otherwise(remedy)) {
        named = std::min(named, slowdown_of(remedy));
        const StepEstimate again = judged(remedy.plan);
        CHECK(again.verdict == remedy.verdict);
        CHECK(again.chance == remedy.chance);
        CHECK(is_yes(again.verdict, again.chance));
      }
    }
    CHECK(named <= 1.1 * *least);
  }
  CHECK(mended >= (test::kSanitized ? 1 : 10));
}

}  // namespace headroom::cost
