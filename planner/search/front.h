#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "planner/evaluate/plan_figures.h"

namespace headroom::plan {

/// The measure of speed for plans that may differ in sequence length: seconds of a step per token
/// of a sequence. Every step has the same number of sequences.
[[nodiscard]] double pace_of(const ir::ParallelPlan& plan, double seconds);

/// The Pareto front of the known plans in pace, peak and GPUs (and so in GPU seconds). Of equal
/// plans it has the first in the space.
class Front {
 public:
  /// The highest peak with which plan `number` with this pace on `gpus` GPUs would be in the front;
  /// negative if no peak is low enough.
  [[nodiscard]] Bytes ceiling(double pace, std::int64_t gpus, std::uint64_t number) const;

  /// Adds those of `plans` that are not dominated, and removes the plans that they dominate.
  void add(std::vector<RatedPlan> plans);

  /// How much worse the closest known plan is than one with these figures, as a ratio in the worst
  /// of the three figures. 0 if a known plan dominates or equals them.
  ///
  /// Source:  Zitzler et al. 2003, IEEE Trans. Evol. Comput. 7(2), epsilon indicator.
  [[nodiscard]] double distance(double pace, Bytes peak, std::int64_t gpus) const;

  /// Sorted by pace, then by peak, GPUs and number in the space.
  [[nodiscard]] const std::vector<RatedPlan>& plans() const { return plans_; }
  [[nodiscard]] std::vector<RatedPlan> take() { return std::move(plans_); }

 private:
  /// The lowest known peak of plans with at most this `pace`.
  struct Step {
    double pace = 0;
    Bytes peak;
    std::uint64_t number = 0;
  };
  void rebuild();

  std::vector<RatedPlan> plans_;
  /// By GPUs: the steps of plans on no more GPUs, by pace. Peaks decrease.
  std::map<std::int64_t, std::vector<Step>> steps_;
};

}  // namespace headroom::plan
