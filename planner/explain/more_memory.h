#pragma once

#include "planner/explain/mend_search.h"

namespace headroom::plan {

/// The least device memory in which some plan fits.
///
/// Model:   mostly that in which `leanest` fits, or little less: from there on, budgets are
/// searched
///          in descending steps of doubling length. From the first at which nothing fits, bisection
///          narrows the rest until one step of budgets is left.
[[nodiscard]] MaybeMend more_memory(const SearchQuestion& question, const RatedPlan& leanest,
                                    SearchRecords& records);

}  // namespace headroom::plan
