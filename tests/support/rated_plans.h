#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "costmodel/hardware/catalogue.h"
#include "planner/evaluate/lowered_plan.h"
#include "planner/search/evaluator.h"
#include "planner/search/search.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"

/// Questions of the planner's property tests, and all plans that could answer them.
namespace headroom::test {

/// Asks for the highest throughput, on one thread, in bf16 with fp32 masters and expandable
/// segments. The caller restricts the space.
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

/// One plan of a space, evaluated without the search.
struct Rated {
  plan::Worth worth;
  double seconds = 0;
  Bytes peak;
  std::int64_t gpus = 0;
  Bytes outside;  ///< Device memory outside the allocator.
};

/// A model and the device on which it is planned.
struct Setting {
  ir::ModelSpec model;
  cost::DeviceSpec device;
  cost::Machine machine;

  Setting(ir::ModelSpec spec, const std::string& gpu)
      : model(std::move(spec)),
        device(cost::load_device(kConfigs, gpu).value()),
        machine(cost::load_machine(kConfigs, device).value()) {}
};

/// One or two values of `all`.
inline plan::AxisValues few_of(Random& random, plan::AxisValues all) {
  while (all.size() > 2 || (all.size() > 1 && random.chance(1, 3))) {
    all.erase(all.begin() + random.between(0, static_cast<std::int64_t>(all.size()) - 1));
  }
  return all;
}

/// Every plan of a space, for runtimes whose plans are lowered whole. Plans that cannot be lowered
/// are no plans of the space, although they are counted.
inline std::vector<Rated> every_lowered_plan(const plan::SearchQuestion& question) {
  std::vector<Rated> all;
  plan::LoweredRecords records;
  plan::LoweredPlans plans(question.space.model, question.device, question.machine, records);
  std::uint64_t number = 0;
  for (const plan::Cell& cell : plan::cells_of(question.space)) {
    const auto choices = plan::choices_of(question.space, cell);
    const Bytes outside = question.device.total - plan::capacity_of(question, cell.plan);
    for (std::uint64_t index = 0; index < cell.choices; ++index, ++number) {
      const ir::ParallelPlan plan = choices->plan_at(index);
      const Result<plan::LoweredPlan> made = plans.of(plan, number);
      if (!made && plan::is_refusal(made.error())) {
        continue;
      }
      const plan::LoweredPlan& lowered = made.value();
      plan::Worth worth =
          plan::worth_of(question, plan, lowered.time.total().value(), lowered.peak);
      worth.number = number;
      all.push_back({.worth = worth,
                     .seconds = lowered.time.total().value(),
                     .peak = lowered.peak,
                     .gpus = plan.world,
                     .outside = outside});
    }
  }
  return all;
}

inline bool fits(const Rated& plan, Bytes budget) {
  return plan.peak <= budget - plan.outside;
}

/// A budget for which some of `all` fit: what a random one of them needs. In every eighth of a
/// test's spaces it is one byte less than any of them needs. `space`: the number of the space.
inline Bytes budget_for_some(Random& random, const std::vector<Rated>& all, int space) {
  const auto need = [](const Rated& one) { return one.outside + one.peak; };
  const std::int64_t last = static_cast<std::int64_t>(all.size()) - 1;
  const Rated& one = all[static_cast<std::size_t>(random.between(0, last))];
  return space % 8 == 5 ? need(std::ranges::min(all, {}, need)) - Bytes{1} : need(one);
}

/// Whether a search for any plan finds one if and only if one exists, and with the fewest GPUs.
inline bool finds_any(plan::SearchQuestion question, const std::vector<Rated>& all,
                      plan::SearchRecords& records) {
  std::int64_t fewest = INT64_MAX;
  for (const Rated& one : all) {
    fewest = fits(one, question.budget) ? std::min(fewest, one.gpus) : fewest;
  }
  question.any = true;
  question.front = false;
  const plan::PlanResult found = plan::search_unreplayed(question, records).value();
  if (!found.best || fewest == INT64_MAX) {
    return found.best.has_value() == (fewest < INT64_MAX);
  }
  const bool least =
      question.objective != plan::Objective::kGpus || found.best->plan.world == fewest;
  return least && found.best->peak <= found.best->capacity;
}

using Point = std::tuple<double, std::int64_t, std::int64_t>;

/// The Pareto front: plans that fit and that no other plan that fits dominates in time, peak and
/// GPUs.
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
