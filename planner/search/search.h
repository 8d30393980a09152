#pragma once

#include "model_ir/base/result.h"
#include "planner/search/search_question.h"
#include "planner/search/search_records.h"

namespace headroom::plan {

/// Finds the best plan of the space that fits, and replays it.
///
/// Model:   best-first branch and bound. Cells are searched in the order of their bounds, in waves
///          of a fixed number of cells that are searched in parallel. The best plan is updated
///          between waves, so that the answer and the counts do not depend on the number of
///          threads. If the replay refuses a plan, because of fragmentation in the allocator, the
///          search runs again without it.
/// Errors:  kInvalidArgument for an empty space, which names the axes that contradict each other;
///          those of the runtimes' lowering.
[[nodiscard]] Result<PlanResult> search(const SearchQuestion& question);
/// The same, with the shared results of earlier searches of the same model, device and machine.
[[nodiscard]] Result<PlanResult> search(const SearchQuestion& question, SearchRecords& records);
/// The same without the replay: the best of the plans that fit according to the fast evaluation.
[[nodiscard]] Result<PlanResult> search_unreplayed(const SearchQuestion& question,
                                                   SearchRecords& records);

}  // namespace headroom::plan
