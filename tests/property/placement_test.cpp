#include "planner/placement/placement.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <doctest/doctest.h>

#include "tests/support/random.h"

namespace headroom::plan {
namespace {

PlacementQuestion random_question(test::Random& random, std::int64_t most_layers) {
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
    const PlacementQuestion question = random_question(random, 4);
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
  for (int round = 0; round < 40; ++round) {
    PlacementQuestion question = random_question(random, 120);
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

}  // namespace headroom::plan
