#pragma once

#include "planner/search/search.h"

namespace headroom::plan {

/// `search` for the best plan whose replayed step is no longer than `SearchQuestion::longest`.
///
/// Model:   the search goes by fast evaluations, so a plan that it takes for fast enough may be
/// late
///          when it is replayed. Then the search runs again with the limit lowered by the ratio of
///          the two times, which rules this plan out, until a replay is in time. Without a limit,
///          this is `search`.
/// Ignores: plans whose replay is faster than their fast evaluation, between the two limits.
/// Errors:  those of `search`.
[[nodiscard]] Result<PlanResult> search_in_time(const SearchQuestion& question,
                                                SearchRecords& records);

}  // namespace headroom::plan
