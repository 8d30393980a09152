#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "planner/evaluate/plan_figures.h"

namespace headroom::plan {

/// What times are compared by where plans may differ in their sequences: seconds of a step for each
/// token of a sequence, as every step has the same number of sequences.
[[nodiscard]] double pace_of(const ir::ParallelPlan& plan, double seconds);

/// Plans that no other known one beats in pace, peak and GPUs (and so in GPU seconds) at once; of
/// equals the first of the space.
class Front {
 public:
  /// The highest peak with which plan `number` on so many GPUs would be one of them; less than
  /// nothing if none would do.
  [[nodiscard]] Bytes ceiling(double pace, std::int64_t gpus, std::uint64_t number) const;

  /// Takes in those of `plans` that none beats, and drops what they beat.
  void add(std::vector<RatedPlan> plans);

  /// How much worse a known plan is than one with these figures, in the worst of the three, as a
  /// share: the least over all known plans; 0 if one beats or equals them.
  ///
  /// Source:  Zitzler et al. 2003, IEEE Trans. Evol. Comput. 7(2), epsilon indicator.
  [[nodiscard]] double distance(double pace, Bytes peak, std::int64_t gpus) const;

  /// By pace, then peak, GPUs and place in the space.
  [[nodiscard]] const std::vector<RatedPlan>& plans() const { return plans_; }
  [[nodiscard]] std::vector<RatedPlan> take() { return std::move(plans_); }

 private:
  /// From `pace` on, the lowest known peak.
  struct Step {
    double pace = 0;
    Bytes peak;
    std::uint64_t number = 0;
  };
  void rebuild();

  std::vector<RatedPlan> plans_;
  /// By GPUs: of plans on no more GPUs, by pace; peaks fall.
  std::map<std::int64_t, std::vector<Step>> steps_;
};

}  // namespace headroom::plan
