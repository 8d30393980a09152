#include "planner/chain/chain.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include <doctest/doctest.h>

#include "tests/support/random.h"

namespace headroom::plan {
namespace {

Chain random_chain(test::Random& random, std::size_t length) {
  Chain chain;
  for (std::size_t i = 0; i < length; ++i) {
    ChainStage stage;
    stage.forward = static_cast<double>(random.between(1, 9));
    stage.backward = static_cast<double>(random.between(1, 9));
    stage.output = random.between(1, 4);
    stage.saved = stage.output + random.between(0, 6);
    stage.gradient = stage.output;
    stage.forward_transient = random.between(0, 3);
    stage.backward_transient = random.between(0, 5);
    chain.push_back(stage);
  }
  return chain;
}

/// What is in memory: stored outputs and saved sets as bits, the output that was just made and is
/// not stored, and how many stages wait for backward.
using State = std::tuple<unsigned, unsigned, int, std::size_t>;

/// The least time by Dijkstra's algorithm over all states that fit into `slots`. What is stored
/// goes only with the backward that reads it; an output that is not stored goes with the next
/// forward.
double brute_force(const Chain& chain, std::int64_t slots) {
  const std::size_t count = chain.size();
  const auto live = [&](const State& state) {
    const auto& [outputs, saved, loose, pending] = state;
    std::int64_t sum = pending > 0 ? chain[pending - 1].gradient : 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += (outputs >> i & 1U) != 0 ? chain[i].output : 0;
      sum += (saved >> i & 1U) != 0 ? chain[i].saved : 0;
    }
    return sum + (loose >= 0 ? chain[static_cast<std::size_t>(loose)].output : 0);
  };
  using Entry = std::pair<double, State>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  std::map<State, double> known;
  const auto reach = [&](double time, const State& state) {
    const auto [at, added] = known.try_emplace(state, time);
    if (added || time < at->second) {
      at->second = time;
      open.push({time, state});
    }
  };
  reach(0, {0, 0, -1, count});
  while (!open.empty()) {
    const auto [time, state] = open.top();
    open.pop();
    if (time > known[state]) {
      continue;
    }
    const unsigned outputs = std::get<0>(state);
    const unsigned saved = std::get<1>(state);
    const int loose = std::get<2>(state);
    const std::size_t pending = std::get<3>(state);
    if (pending == 0) {
      return time;
    }
    const auto has = [&](std::size_t input) {  // The input of stage `input`.
      return input == 0 || (outputs >> (input - 1) & 1U) != 0 || (saved >> (input - 1) & 1U) != 0 ||
             loose == static_cast<int>(input) - 1;
    };
    for (std::size_t i = 0; i < pending; ++i) {
      const ChainStage& stage = chain[i];
      if (!has(i)) {
        continue;
      }
      // The loose input stays stored, or goes.
      for (const bool keep : {false, true}) {
        const bool mine = loose >= 0 && loose == static_cast<int>(i) - 1;
        if (keep && !mine) {
          continue;
        }
        const unsigned kept = keep ? outputs | 1U << static_cast<unsigned>(loose) : outputs;
        // An output that nobody reads next is dropped before.
        const State before{kept, saved, mine && !keep ? loose : -1, pending};
        if (live(before) + stage.output + stage.forward_transient <= slots) {
          reach(time + stage.forward, {kept, saved, static_cast<int>(i), pending});
        }
        const bool stays = mine && !keep;
        if (!stays && live(before) + stage.saved + stage.forward_transient <= slots &&
            (saved >> i & 1U) == 0) {
          reach(time + stage.forward, {kept, saved | 1U << i, -1, pending});
        }
      }
    }
    const std::size_t last = pending - 1;
    const bool input = last == 0 || (outputs >> (last - 1) & 1U) != 0 || (saved >> (last - 1) & 1U);
    if ((saved >> last & 1U) != 0 && input) {
      const State before{outputs, saved, -1, pending};
      if (live(before) + chain[last].backward_transient <= slots) {
        const unsigned rest = last == 0 ? outputs : outputs & ~(1U << (last - 1));
        reach(time + chain[last].backward, {rest, saved & ~(1U << last), -1, last});
      }
    }
  }
  return std::numeric_limits<double>::infinity();
}

/// The recurrence of Beaumont et al. as it stands, every table whole: the least time.
double plain_recurrence(const Chain& chain, std::int64_t slots) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::size_t count = chain.size();
  const auto width = static_cast<std::size_t>(slots) + 1;
  std::vector<std::vector<double>> tables(count * count, std::vector<double>(width, kNever));
  const auto at = [&](std::size_t s, std::size_t t, std::int64_t m) {
    return m < 0 ? kNever : tables[s * count + t][static_cast<std::size_t>(m)];
  };
  for (std::size_t length = 0; length < count; ++length) {
    for (std::size_t s = 0; s + length < count; ++s) {
      const std::size_t t = s + length;
      const ChainStage& first = chain[s];
      const std::int64_t all = first.saved + std::max(chain[t].gradient + first.forward_transient,
                                                      first.gradient + first.backward_transient);
      std::int64_t run = first.output + first.forward_transient;
      for (std::size_t i = s + 1; i < t; ++i) {
        run = std::max(run, chain[i - 1].output + chain[i].output + chain[i].forward_transient);
      }
      for (std::int64_t m = 0; m <= slots; ++m) {
        double least = kNever;
        if (m >= all) {
          least = first.forward + first.backward + (t > s ? at(s + 1, t, m - first.saved) : 0);
        }
        double forward = 0;
        for (std::size_t k = s + 1; k <= t && m >= run + chain[t].gradient; ++k) {
          forward += chain[k - 1].forward;
          least = std::min(least, forward + at(k, t, m - chain[k - 1].output) + at(s, k - 1, m));
        }
        tables[s * count + t][static_cast<std::size_t>(m)] = least;
      }
    }
  }
  return at(0, count - 1, slots);
}

void store_all(std::size_t from, std::size_t to, std::vector<ChainStep>& steps) {
  for (std::size_t i = from; i < to; ++i) {
    steps.push_back({ChainStep::Kind::kForwardAll, i});
  }
  for (std::size_t i = to; i > from; --i) {
    steps.push_back({ChainStep::Kind::kBackward, i - 1});
  }
}

/// Stages in groups of `group`, of each of which only the input is kept and which runs again as a
/// whole before its backward: 1 is every layer, the square root of their number is Chen et al.
/// 2016, arXiv:1604.06174; nothing is run again of the last group.
ChainSchedule grouped_chain(const Chain& chain, std::size_t group) {
  std::vector<ChainStep> steps;
  std::vector<std::size_t> begins;
  for (std::size_t begin = 0; begin < chain.size(); begin += group) {
    begins.push_back(begin);
  }
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    steps.push_back({ChainStep::Kind::kForwardKeep, begins[i]});
    for (std::size_t stage = begins[i] + 1; stage < begins[i + 1]; ++stage) {
      steps.push_back({ChainStep::Kind::kForwardDrop, stage});
    }
  }
  for (std::size_t i = begins.size(); i > 0; --i) {
    store_all(begins[i - 1], std::min(begins[i - 1] + group, chain.size()), steps);
  }
  return run_chain(chain, std::move(steps)).value_or(ChainSchedule{});
}

/// The first `recomputed` stages each run again, the others keep all.
ChainSchedule block_chain(const Chain& chain, std::size_t recomputed) {
  std::vector<ChainStep> steps;
  const std::size_t first = std::min(recomputed, chain.size() - 1);
  for (std::size_t i = 0; i < first; ++i) {
    steps.push_back({ChainStep::Kind::kForwardKeep, i});
  }
  store_all(first, chain.size(), steps);
  for (std::size_t i = first; i > 0; --i) {
    store_all(i - 1, i, steps);
  }
  return run_chain(chain, std::move(steps)).value_or(ChainSchedule{});
}

}  // namespace

TEST_CASE("chain: nothing that is passed over would have been better") {
  test::Random random = test::seeded_random(413);
  CAPTURE(random.seed());
  for (int round = 0; round < 60; ++round) {
    // Few kinds of stages, so that segments repeat; sizes so that budgets span many blocks.
    const Chain kinds = random_chain(random, static_cast<std::size_t>(random.between(1, 6)));
    const std::int64_t scale = random.between(1, 20);
    Chain chain;
    std::int64_t whole = 0;
    for (std::int64_t i = random.between(2, 22); i > 0; --i) {
      ChainStage stage = random.pick(kinds);
      for (std::int64_t* const size : {&stage.output, &stage.saved, &stage.gradient,
                                       &stage.forward_transient, &stage.backward_transient}) {
        *size = *size * scale + (random.chance(1, 4) ? random.between(0, 3) : 0);
      }
      stage.saved = std::max(stage.saved, stage.output);
      whole += stage.saved;
      chain.push_back(stage);
    }
    const std::int64_t slots = std::min<std::int64_t>(random.between(whole / 8, whole + 20), 700);
    CAPTURE(round);
    CAPTURE(slots);
    const std::optional<ChainSchedule> found = optimal_chain(chain, slots, 2);
    CHECK((found ? found->time : std::numeric_limits<double>::infinity()) ==
          plain_recurrence(chain, slots));
  }
}

TEST_CASE("chain: the optimum is that of brute force on small chains") {
  test::Random random = test::seeded_random(410);
  CAPTURE(random.seed());
  for (int round = 0; round < 3000; ++round) {
    // Every twentieth has five stages, which takes the reference most of its time.
    const std::int64_t most = round % 20 == 0 ? 5 : 4;
    const Chain chain = random_chain(random, static_cast<std::size_t>(random.between(1, most)));
    const std::int64_t slots = random.between(4, 45);
    CAPTURE(round);
    CAPTURE(slots);
    const std::optional<ChainSchedule> found = optimal_chain(chain, slots);
    const double expected = brute_force(chain, slots);
    CHECK((found ? found->time : std::numeric_limits<double>::infinity()) == expected);
    if (found) {
      CHECK(found->peak <= slots);
    }
  }
}

TEST_CASE("chain: fixed patterns are never quicker than the optimum at their own peak") {
  test::Random random = test::seeded_random(411);
  CAPTURE(random.seed());
  for (int round = 0; round < 40; ++round) {
    const Chain chain = random_chain(random, static_cast<std::size_t>(random.between(2, 16)));
    for (std::size_t step = 1; step <= chain.size(); ++step) {
      for (const ChainSchedule& fixed : {grouped_chain(chain, step), block_chain(chain, step)}) {
        REQUIRE(!fixed.steps.empty());
        const std::optional<ChainSchedule> best = optimal_chain(chain, fixed.peak);
        REQUIRE(best);
        CHECK(best->time <= fixed.time);
        CHECK(best->peak <= fixed.peak);
      }
    }
  }
}

TEST_CASE("chain: threads and more memory than needed change nothing") {
  test::Random random = test::seeded_random(412);
  CAPTURE(random.seed());
  const Chain chain = random_chain(random, 24);
  for (const std::int64_t slots : {40LL, 60LL, 90LL, 100'000'000'000LL}) {
    const std::optional<ChainSchedule> one = optimal_chain(chain, slots, 1);
    const std::optional<ChainSchedule> two = optimal_chain(chain, slots, 3);
    REQUIRE(one.has_value() == two.has_value());
    if (one) {
      CHECK(one->steps == two->steps);
    }
  }
  double all = 0;
  for (const ChainStage& stage : chain) {
    all += stage.forward + stage.backward;
  }
  CHECK(optimal_chain(chain, 100'000)->time == all);
}

TEST_CASE("chain: a schedule that lacks something is no schedule") {
  const Chain chain(2, {.forward = 1, .backward = 1, .output = 1, .saved = 2, .gradient = 1});
  CHECK(!run_chain(chain, {{ChainStep::Kind::kForwardAll, 1}}));
  CHECK(!run_chain(chain, {{ChainStep::Kind::kForwardAll, 0}, {ChainStep::Kind::kBackward, 0}}));
  CHECK(!run_chain(chain, {{ChainStep::Kind::kForwardAll, 0}}));
}

TEST_CASE("chain: stages that take no memory need none") {
  const Chain chain(3, {.forward = 1, .backward = 2, .output = 0, .saved = 0, .gradient = 0});
  const std::optional<ChainSchedule> found = optimal_chain(chain, 0);
  REQUIRE(found);
  CHECK(found->time == 9);
}

}  // namespace headroom::plan
