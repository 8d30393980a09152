#pragma once

#include "planner/search/search.h"

namespace headroom::plan {

/// `search` for the best plan whose replayed step is no longer than `SearchQuestion::longest`.
///
/// Model:   the search goes by fast evaluations, so a plan that it takes for fast enough may be
///          late when it is replayed. Then the search runs again with the limit lowered by the
///          ratio of the two times, which rules this plan out, until a replay is in time. Without a
///          limit, this is `search`.
/// Ignores: plans whose replay is faster than their fast evaluation, between the two limits.
/// Errors:  those of `search`.
[[nodiscard]] Result<PlanResult> search_in_time(const SearchQuestion& question,
                                                SearchRecords& records);

/// The same, but where the best plan fits only because PyTorch empties its cache, the best that
/// fits without, unless it is slower by more than `kMostSlower`.
///
/// Model:   a time for emptying the cache is not known, so that the step of the former is too short
///          by an unknown time. DeepSpeed warns of every such step. This holds only where step
///          times decide (throughput and cost) or break ties (the fewest GPUs). The second search
///          ends where many plans do not fit after all (`SearchQuestion::at_once`); then the first
///          one's bound is the better one, and the plan is not proven.
/// Source:  deepspeedai/DeepSpeed deepspeed/runtime/zero/stage3.py, step ("pytorch allocator cache
///          flushes since last step"); Y. Zhao et al., PyTorch FSDP, 2023, arXiv:2304.11277,
///          section 5.3 (defragmentation by cudaMalloc retries slows training).
[[nodiscard]] Result<PlanResult> search_without_emptying(const SearchQuestion& question,
                                                         SearchRecords& records);

/// A choice: beyond it, the faster plan stands, with what it says about the cache.
inline constexpr double kMostSlower = 0.1;

}  // namespace headroom::plan
