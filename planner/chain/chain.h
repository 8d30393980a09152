#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/chain/chain_steps.h"

namespace headroom::plan {

/// Runs `steps` and measures time and peak. It shares no code with the search, so it proves that a
/// schedule is valid. Nothing if a step needs data that is not stored, or if backward does not
/// reach the first stage.
[[nodiscard]] std::optional<ChainSchedule> run_chain(const Chain& chain,
                                                     std::vector<ChainStep> steps);

/// The fastest persistent schedule (one that keeps everything that it stores until backward) whose
/// peak is at most `slots`. Nothing if there is none.
///
/// A slot is the unit of memory in these functions: all sizes are whole numbers of slots.
///
/// Model:   C(s, t, m) is the least time from forward of s to backward of s with m slots, while the
///          gradient of t waits. It is the least of
///            forward of s .. s'-1, storing only the input of s', then C(s', t, m - a(s'-1)) and
///            C(s, s'-1, m), for any s' in (s, t];
///            forward of s, storing everything, C(s+1, t, m - abar(s)), backward of s.
///          `ChainTables` says which of these values must be computed.
/// Cost:    less than L^3 M / 6 additions and L^2 M / 2 numbers of four bytes, usually far less.
///          Times are compared in single precision.
/// Source:  Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova 2019, "Optimal checkpointing for
///          heterogeneous chains", arXiv:1911.13214, section 4, theorem 1.
[[nodiscard]] std::optional<ChainSchedule> optimal_chain(const Chain& chain, std::int64_t slots,
                                                         int threads = 1);

}  // namespace headroom::plan
