#pragma once

#include <string>

#include "tests/gpu/executor/parts.h"
#include "validators/executor/rank.h"

namespace headroom::test {

/// Expects that a run did to its memory what is predicted for an allocator of `capacity`: each
/// phase to the byte, or the same request that failed.
void expect_prediction(const exec::Execution& execution, const exec::RankRun& run, Bytes capacity,
                       const std::string& name, Outcome& outcome);

/// The most bytes that the allocator reserved in any phase.
[[nodiscard]] Bytes highest_reserved(const std::vector<cost::PhaseMemory>& phases);

}  // namespace headroom::test
