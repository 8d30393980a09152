#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "planner/space/framework_search.h"

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
  Axis axis = Axis::kRuntime;
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
                                     Axis axis, std::int64_t value, SearchRecords& records);

/// Values next to those of `plan` that are worth asking about: the other frameworks that are
/// searched unless some are named, and what its own framework names.
[[nodiscard]] std::vector<Alternative> alternatives_of(const ir::ParallelPlan& plan);

}  // namespace headroom::plan
