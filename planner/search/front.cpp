#include "planner/search/front.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

namespace headroom::plan {
namespace {

double pace_of_rated(const RatedPlan& plan) {
  return pace_of(plan.plan, plan.time.total().value());
}

}  // namespace

double pace_of(const ir::ParallelPlan& plan, double seconds) {
  return seconds / static_cast<double>(plan.workload.sequence);
}

Bytes Front::ceiling(double pace, std::int64_t gpus, std::uint64_t number) const {
  constexpr Bytes kNone{std::numeric_limits<std::int64_t>::max()};
  const auto above = steps_.upper_bound(gpus);
  if (above == steps_.begin()) {
    return kNone;
  }
  const std::vector<Step>& steps = std::prev(above)->second;
  const auto later = std::ranges::upper_bound(steps, pace, {}, &Step::pace);
  if (later == steps.begin()) {
    return kNone;
  }
  const Step& lowest = *std::prev(later);
  const bool ties = lowest.pace == pace && number < lowest.number;
  return ties ? lowest.peak : lowest.peak - Bytes{1};
}

void Front::add(std::vector<RatedPlan> plans) {
  if (plans.empty()) {
    return;
  }
  std::ranges::move(plans, std::back_inserter(plans_));
  std::ranges::sort(plans_, [](const RatedPlan& a, const RatedPlan& b) {
    return std::tuple(pace_of_rated(a), a.peak, a.plan.world, a.number) <
           std::tuple(pace_of_rated(b), b.peak, b.plan.world, b.number);
  });
  std::vector<RatedPlan> kept;
  std::map<std::int64_t, Bytes> lowest;  // By GPUs, of plans that are no slower.
  for (RatedPlan& plan : plans_) {
    const auto beats = [&](const auto& known) {
      return known.first <= plan.plan.world && known.second <= plan.peak;
    };
    if (!std::ranges::any_of(lowest, beats)) {
      lowest[plan.plan.world] = plan.peak;
      kept.push_back(std::move(plan));
    }
  }
  plans_ = std::move(kept);
  rebuild();
}

void Front::rebuild() {
  steps_.clear();
  for (const RatedPlan& plan : plans_) {
    steps_[plan.plan.world];
  }
  for (auto& [gpus, steps] : steps_) {
    for (const RatedPlan& plan : plans_) {
      if (plan.plan.world <= gpus && (steps.empty() || plan.peak < steps.back().peak)) {
        steps.push_back({.pace = pace_of_rated(plan), .peak = plan.peak, .number = plan.number});
      }
    }
  }
}

double Front::distance(double pace, Bytes peak, std::int64_t gpus) const {
  double least = std::numeric_limits<double>::infinity();
  for (const RatedPlan& plan : plans_) {
    const double worst =
        std::max({pace_of_rated(plan) / pace,
                  static_cast<double>(plan.peak.value()) / static_cast<double>(peak.value()),
                  static_cast<double>(plan.plan.world) / static_cast<double>(gpus), 1.0});
    least = std::min(least, worst - 1);
  }
  return least;
}

}  // namespace headroom::plan
