#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"

namespace headroom::plan {

/// What speaks against a value of an axis.
struct WhyNot {
  enum class Kind : std::uint8_t {
    kChosen,      ///< The best plan has it.
    kNotInSpace,  ///< No plan of the space has it.
    kTooLarge,    ///< No plan with it fits.
    kSlower,      ///< Plans with it fit, but the best of them is worth less.
    kUnknown,     ///< The search with it stopped early and found nothing.
  };
  Axis axis = Axis::kTensor;
  std::int64_t value = 0;
  Kind kind = Kind::kChosen;
  std::string refusal;            ///< kNotInSpace: what contradicts it.
  std::optional<RatedPlan> plan;  ///< The best with it; kTooLarge: the leanest looked into.
  std::optional<cost::StepEstimate> replay;  ///< Of `plan`: phase, rank, bytes.
  double seconds_lost = 0;                   ///< kSlower: a step takes so much longer.
};

/// Asks the same question with `axis` held to `value`.
///
/// Errors:  those of `search` but for an empty space, which is an answer.
[[nodiscard]] Result<WhyNot> why_not(const SearchQuestion& question, const PlanResult& found,
                                     Axis axis, std::int64_t value, PlanMemory& memory);

/// Values next to those of `plan` that are worth asking about: half and twice of each degree, the
/// other frameworks, no recomputation.
struct Alternative {
  Axis axis;
  std::int64_t value;
};
[[nodiscard]] std::vector<Alternative> alternatives_of(const ir::ParallelPlan& plan);

/// A change of the question that makes it feasible, replayed.
struct Mend {
  enum class Kind : std::uint8_t { kBudget, kGpus, kSequence, kFreedAxis };
  Kind kind = Kind::kGpus;
  Axis axis = Axis::kGpus;  ///< kFreedAxis: which.
  std::int64_t value = 0;   ///< Bytes of the device, GPUs, or tokens.
  RatedPlan plan;
  cost::Verdict verdict = cost::Verdict::kFits;
};

/// Why nothing fits and what would.
struct Infeasibility {
  /// The lowest peak of the space on a device without a limit.
  std::optional<RatedPlan> leanest;
  bool proven = false;  ///< It is the lowest of all; else of the plans that were looked into.
  std::vector<Mend> mends;
};

/// The smallest change of each kind: device memory for the leanest plan, GPUs, a shorter sequence,
/// one constraint freed. Each is replayed.
///
/// Model:   GPUs by doubling, then whole nodes between; sequences by halving.
/// Errors:  those of `search`.
[[nodiscard]] Result<Infeasibility> explain_infeasible(const SearchQuestion& question,
                                                       PlanMemory& memory);

}  // namespace headroom::plan
