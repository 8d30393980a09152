#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "planner/space/framework_search.h"

namespace headroom::plan {

/// Why a value of an axis was not chosen.
struct WhyNot {
  enum class Kind : std::uint8_t {
    kChosen,      ///< The best plan has it.
    kNotInSpace,  ///< No plan of the space has it.
    kTooLarge,    ///< No plan with it fits.
    kSlower,      ///< Plans with it fit, but the best of them is worse.
    kUnknown,     ///< The search with it stopped early without a plan.
  };
  Axis axis = Axis::kRuntime;
  std::int64_t value = 0;
  Kind kind = Kind::kChosen;
  std::string refusal;                       ///< kNotInSpace: the requirement that it violates.
  std::optional<RatedPlan> plan;             ///< The best with it; kTooLarge: the leanest found.
  std::optional<cost::StepEstimate> replay;  ///< Replay of `plan`: phase, rank, bytes.
  double seconds_lost = 0;                   ///< kSlower: additional seconds of a step.
};

/// Answers the same question with `axis` held to `value`.
///
/// Errors:  those of `search`, except for an empty space, which is an answer.
[[nodiscard]] Result<WhyNot> why_not(const SearchQuestion& question, const PlanResult& found,
                                     Axis axis, std::int64_t value, SearchRecords& records);

/// Neighbouring values of `plan` for which an explanation is useful: the other frameworks that are
/// searched by default, and the values that its own framework names.
[[nodiscard]] std::vector<Alternative> alternatives_of(const ir::ParallelPlan& plan);

}  // namespace headroom::plan
