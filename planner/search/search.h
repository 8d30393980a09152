#pragma once

#include "model_ir/base/result.h"
#include "planner/search/search_question.h"
#include "planner/search/search_records.h"

namespace headroom::plan {

/// Finds the best plan of the space that fits, and replays it.
///
/// Model:   the plan of the lowest bound is looked at next, in waves of a fixed number of cells
/// that
///          are looked into at the same time; the best plan is settled between waves, so that the
///          answer and the counts do not depend on the number of threads. A plan that the
///          replay refuses (the allocator's leftovers) is left out and the search done again.
/// Errors:  kInvalidArgument for an empty space, naming the axes that contradict each other; those
///          of the runtimes' lowering.
[[nodiscard]] Result<PlanResult> search(const SearchQuestion& question);
/// The same with what earlier searches of the same model, device and machine have worked out.
[[nodiscard]] Result<PlanResult> search(const SearchQuestion& question, SearchRecords& records);
/// The same without the replay: the best of the plans that fit by the fast path.
[[nodiscard]] Result<PlanResult> search_unreplayed(const SearchQuestion& question,
                                                   SearchRecords& records);

}  // namespace headroom::plan
