#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/stage_placement.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "model_ir/spec/hf_config.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"

namespace headroom::plan {
namespace {

PlacementQuestion random_placement(test::Random& random, std::int64_t most_layers) {
  PlacementQuestion question;
  question.passes = random.between(1, 4);
  question.forward = static_cast<double>(random.between(1, 40));
  question.backward = static_cast<double>(random.between(1, 60));
  for (std::int64_t kind = random.between(1, 2); kind > 0; --kind) {
    LayerKind layers{.layers = random.between(0, most_layers), .options = {}};
    for (std::int64_t option = random.between(1, 4); option > 0; --option) {
      const bool copies = random.chance(1, 3);
      layers.options.push_back({.again = copies ? 0.0 : static_cast<double>(random.between(0, 12)),
                                .copy = copies ? static_cast<double>(random.between(1, 15)) : 0.0,
                                .kept = random.between(0, 20),
                                .fixed = random.between(0, 30)});
    }
    question.kinds.push_back(std::move(layers));
  }
  question.budget = random.between(0, 25 * most_layers * question.passes);
  return question;
}

/// Every layer by itself with every option.
double brute_force(const PlacementQuestion& question) {
  std::vector<std::vector<std::int64_t>> counts;
  for (const LayerKind& kind : question.kinds) {
    counts.emplace_back(kind.options.size(), 0);
  }
  double best = -1;
  const std::function<void(std::size_t, std::int64_t)> place = [&](std::size_t kind,
                                                                   std::int64_t layer) {
    if (kind == question.kinds.size()) {
      const Placement found = placement_of(question, counts);
      if (found.bytes <= question.budget && (best < 0 || found.seconds < best)) {
        best = found.seconds;
      }
      return;
    }
    if (layer == question.kinds[kind].layers) {
      place(kind + 1, 0);
      return;
    }
    for (std::int64_t& count : counts[kind]) {
      ++count;
      place(kind, layer + 1);
      --count;
    }
  };
  place(0, 0);
  return best;
}

}  // namespace

TEST_CASE("placement: the optimum is that of all placements layer by layer") {
  test::Random random = test::seeded_random(420);
  CAPTURE(random.seed());
  for (int round = 0; round < 3000; ++round) {
    const PlacementQuestion question = random_placement(random, 4);
    CAPTURE(round);
    const std::optional<Placement> found = best_placement(question);
    CHECK((found ? found->seconds : -1) == brute_force(question));
    if (found) {
      CHECK(found->bytes <= question.budget);
      const Placement again = placement_of(question, found->counts);
      CHECK(again.seconds == found->seconds);
      CHECK(again.bytes == found->bytes);
      for (std::size_t kind = 0; kind < question.kinds.size(); ++kind) {
        std::int64_t layers = 0;
        for (const std::int64_t count : found->counts[kind]) {
          CHECK(count >= 0);
          layers += count;
        }
        CHECK(layers == question.kinds[kind].layers);
      }
    }
  }
}

TEST_CASE("placement: more memory never takes longer, for many layers") {
  test::Random random = test::seeded_random(421);
  CAPTURE(random.seed());
  for (int round = 0; round < (test::kSanitized ? 8 : 40); ++round) {
    PlacementQuestion question = random_placement(random, 120);
    CAPTURE(round);
    double before = -1;
    for (int step = 0; step < 6; ++step) {
      const std::optional<Placement> found = best_placement(question);
      if (before >= 0) {
        REQUIRE(found);
        CHECK(found->seconds <= before);
      }
      before = found ? found->seconds : -1;
      question.budget += random.between(0, 400);
    }
  }
}

TEST_CASE("placement: sets of modules, whose figures add up, and copies for many layers") {
  test::Random random = test::seeded_random(423);
  CAPTURE(random.seed());
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    LayerKind kind{.layers = 126, .options = {}};
    const std::vector<double> seconds = {1e-6 * static_cast<double>(random.between(50, 250)),
                                         1e-6 * static_cast<double>(random.between(10, 80)),
                                         1e-6 * static_cast<double>(random.between(300, 600))};
    const std::vector<std::int64_t> bytes = {random.between(20, 200), random.between(50, 150),
                                             random.between(300, 600)};
    for (unsigned set = 0; set < 8; ++set) {
      LayerOption option{.again = 0, .copy = 0, .kept = 1000, .fixed = 500};
      for (unsigned module = 0; module < 3; ++module) {
        const bool runs = (set >> module & 1U) != 0;
        option.again += runs ? seconds[module] : 0;
        option.kept -= runs ? bytes[module] : 0;
      }
      kind.options.push_back(option);
    }
    kind.options.push_back({.again = 1e-3, .copy = 0, .kept = 40, .fixed = 700});
    const std::vector<LayerOption> without = kind.options;
    kind.options.push_back({.again = 0, .copy = 1.7e-3, .kept = 0, .fixed = 2500});
    PlacementQuestion question{.kinds = {kind},
                               .passes = random.between(1, 8),
                               .budget = 0,
                               .forward = 126e-3,
                               .backward = 252e-3};
    question.budget = 126 * 10 * question.passes * random.between(10, 90) + 3000;
    const std::optional<Placement> best = best_placement(question);
    question.kinds[0].options = without;
    const std::optional<Placement> bare = best_placement(question);
    REQUIRE(best);
    REQUIRE(bare);
    CHECK(best->seconds <= bare->seconds);
    CHECK(best->bytes <= question.budget);
    // All layers may run again as a whole.
    CHECK(bare->seconds <= question.forward + question.backward + 126e-3);
  }
}

TEST_CASE("placement: what is copied beside the computation costs nothing until the link is full") {
  // Ten layers of 8 bytes, 40 fit: keep five, and copy or run again the others. A copy takes 3 of
  // forward's 10 seconds, so three are free; the fourth would show 2 + 0, running again costs 4.
  const PlacementQuestion question{
      .kinds = {{.layers = 10,
                 .options = {{.kept = 8}, {.copy = 3, .kept = 0}, {.again = 4, .kept = 0}}}},
      .passes = 1,
      .budget = 40,
      .forward = 10,
      .backward = 20};
  const std::optional<Placement> found = best_placement(question);
  REQUIRE(found);
  CHECK(found->counts[0] == std::vector<std::int64_t>{5, 5, 0});
  CHECK(found->seconds == 15 + 20);
}

TEST_CASE("placement: counts of a stage never take less than its whole program") {
  const ir::ModelSpec model = ir::parse_hf_config(R"({"hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 4,
    "vocab_size": 512, "max_position_embeddings": 4096, "model_type": "llama"})",
                                                  "small")
                                  .value();
  const cost::DeviceSpec device = cost::load_device(test::kConfigs, "a100-80gb").value();
  const cost::Machine machine = cost::load_machine(test::kConfigs, device).value();
  test::Random random = test::seeded_random(422);
  CAPTURE(random.seed());
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    ir::ParallelPlan plan;
    plan.runtime = "megatron";
    plan.precision = ir::Precision::kBf16Master;
    plan.workload.sequence = 256 * random.between(2, 8);
    plan.workload.micro_batch = random.between(1, 3);
    plan.allocator.expandable_segments = true;
    edit_megatron(plan) = ir::MegatronPlan{};
    plan.mesh.pipeline = random.pick<std::int64_t>({1, 2, 3});
    edit_megatron(plan).layers_per_chunk = plan.mesh.pipeline > 1 && random.chance(1, 2) ? 2 : 0;
    plan.world = plan.mesh.pipeline;
    plan.workload.accumulation = 4 * plan.mesh.pipeline;
    plan.loss = ir::LossKind::kHf;
    const std::vector<StagePlacement> roomy =
        stage_placements(model, plan, device, machine, Bytes{80 * kGiB}).value();
    REQUIRE(roomy.size() == 1);
    REQUIRE(roomy[0].best);
    CHECK(roomy[0].best->seconds == roomy[0].question.forward + roomy[0].question.backward);
    const Bytes budget{roomy[0].everything.value() - random.between(1, 4) * kMiB};
    const std::vector<StagePlacement> tight =
        stage_placements(model, plan, device, machine, budget).value();
    for (const StagePlacement& stage : tight) {
      CAPTURE(stage.stage);
      const std::size_t full = static_cast<std::size_t>(
          std::ranges::find(stage.actions, LayerAction::Kind::kFull, &LayerAction::kind) -
          stage.actions.begin());
      REQUIRE(full < stage.actions.size());
      for (const PlacementRule& rule : stage.rules) {
        const bool block = rule.kind == PlacementRule::Kind::kBlock;
        if (!block && rule.kind != PlacementRule::Kind::kUniform) {
          continue;
        }
        std::vector<std::vector<std::int64_t>> counts = {
            std::vector<std::int64_t>(stage.actions.size(), 0)};
        counts[0][full] = block ? rule.number : stage.question.kinds[0].layers;
        counts[0][0] = stage.question.kinds[0].layers - counts[0][full];
        const Placement placement = placement_of(stage.question, counts);
        CHECK(placement.bytes >= rule.peak.value());
        CHECK((block || placement.bytes == rule.peak.value()));
        CHECK(placement.seconds - stage.question.forward - stage.question.backward ==
              doctest::Approx(rule.seconds));
      }
    }
  }
}

}  // namespace headroom::plan
