#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "planner/search/cell_search.h"
#include "planner/search/search.h"
#include "tests/support/random.h"

/// What the planner's property tests ask, and every plan that it could answer.
namespace headroom::test {

/// Throughput on one thread, bf16 with fp32 masters, expandable segments; the caller narrows it.
inline plan::SearchQuestion search_question(const ir::ModelSpec& model,
                                            const cost::DeviceSpec& device,
                                            const cost::Machine& machine,
                                            std::int64_t global_batch) {
  plan::SearchQuestion question{.space = {.model = model,
                                          .base = {},
                                          .global_batch = global_batch,
                                          .constraints = {},
                                          .device = device.traits},
                                .machine = machine,
                                .device = device,
                                .budget = {},
                                .pruning = {},
                                .progress = {}};
  question.space.base.precision = ir::Precision::kBf16Master;
  question.space.base.allocator.expandable_segments = true;
  return question;
}

/// One plan of a space, worked out alone.
struct Rated {
  plan::Worth worth;
  double seconds = 0;
  Bytes peak;
  std::int64_t gpus = 0;
  Bytes outside;  ///< What the device loses beside the allocator.
};

inline bool fits(const Rated& plan, Bytes budget) {
  return plan.peak <= budget - plan.outside;
}

/// Room for some of `all` in the `space`-th of a test's spaces: what a plan drawn of them needs,
/// and in every eighth space a byte less than any of them needs.
inline Bytes budget_for_some(Random& random, const std::vector<Rated>& all, int space) {
  const auto need = [](const Rated& one) { return one.outside + one.peak; };
  const std::int64_t last = static_cast<std::int64_t>(all.size()) - 1;
  const Rated& one = all[static_cast<std::size_t>(random.between(0, last))];
  return space % 8 == 5 ? need(std::ranges::min(all, {}, need)) - Bytes{1} : need(one);
}

/// Whether a search for any plan finds one exactly where there is one, and the fewest GPUs.
inline bool finds_any(plan::SearchQuestion question, const std::vector<Rated>& all,
                      plan::PlanMemory& memory) {
  std::int64_t fewest = INT64_MAX;
  for (const Rated& one : all) {
    fewest = fits(one, question.budget) ? std::min(fewest, one.gpus) : fewest;
  }
  question.any = true;
  question.front = false;
  const plan::PlanResult found = plan::search_unreplayed(question, memory).value();
  if (!found.best || fewest == INT64_MAX) {
    return found.best.has_value() == (fewest < INT64_MAX);
  }
  const bool least =
      question.objective != plan::Objective::kGpus || found.best->plan.world == fewest;
  return least && found.best->peak <= found.best->capacity;
}

using Point = std::tuple<double, std::int64_t, std::int64_t>;

/// What no other plan that fits beats in time, peak and GPUs.
inline std::set<Point> front_of(const std::vector<Rated>& all, Bytes budget) {
  std::set<Point> front;
  const auto beats = [](const Rated& a, const Rated& b) {
    return a.seconds <= b.seconds && a.peak <= b.peak && a.gpus <= b.gpus &&
           (a.seconds < b.seconds || a.peak < b.peak || a.gpus < b.gpus);
  };
  for (const Rated& one : all) {
    const auto is_better = [&](const Rated& other) {
      return fits(other, budget) && beats(other, one);
    };
    if (fits(one, budget) && !std::ranges::any_of(all, is_better)) {
      front.emplace(one.seconds, one.peak.value(), one.gpus);
    }
  }
  return front;
}

}  // namespace headroom::test
