#pragma once

#include <cstdint>
#include <optional>

#include "planner/explain/mend.h"
#include "planner/search/search.h"

/// The searches behind the changes with which a plan fits.
namespace headroom::plan {

using MaybeMend = Result<std::optional<Mend>>;

[[nodiscard]] bool is_stopped(const SearchQuestion& question);

/// The answer of a search of limited effort (`SearchQuestion::effort`); nothing for an empty space.
[[nodiscard]] Result<std::optional<PlanResult>> asked(const SearchQuestion& question,
                                                      SearchRecords& records);

/// A plan that fits, searched from those that need least.
[[nodiscard]] Result<std::optional<PlanResult>> any_of(const SearchQuestion& question,
                                                       SearchRecords& records);

/// Whether the answer leaves open that some plan fits.
[[nodiscard]] bool is_open(const std::optional<PlanResult>& found);

/// A mend whose plan is not known yet.
[[nodiscard]] Mend mend_to(Mend::Kind kind, std::int64_t value);

/// Takes the plan that was found, which there is, into `mend`.
void take_plan(const PlanResult& found, Mend& mend);

/// `mend` with the best plan of `question` that a search of limited effort finds, if that is better
/// than its own.
[[nodiscard]] MaybeMend with_better(Mend mend, const SearchQuestion& question,
                                    SearchRecords& records);

/// The best plan as in `with_better`, but nothing if no plan of `question` fits. `open` is set if
/// the search for one ended before it found one.
[[nodiscard]] MaybeMend with_best(Mend mend, const SearchQuestion& question, SearchRecords& records,
                                  bool& open);

}  // namespace headroom::plan
