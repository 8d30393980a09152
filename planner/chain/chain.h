#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/chain/chain_steps.h"

namespace headroom::plan {

/// Runs `steps` and measures them: the certificate of a schedule, which shares nothing with the
/// search for it. Nothing if a step lacks what it needs or backward does not reach the first stage.
[[nodiscard]] std::optional<ChainSchedule> run_chain(const Chain& chain,
                                                     std::vector<ChainStep> steps);

/// The quickest schedule that keeps what it stores and whose peak is at most `slots`; nothing if
/// there is none.
///
/// Model:   C(s, t, m), the least time from forward of s to backward of s with m slots while the
///          gradient of t waits, is the least of
///            forward of s .. s'-1 keeping only the input of s' , then C(s', t, m - a(s'-1)) and
///            C(s, s'-1, m), for any s' in (s, t];
///            forward of s keeping all, C(s+1, t, m - abar(s)), backward of s.
///          What of it must be worked out, `ChainTables` says.
/// Cost:    less than L^3 M / 6 additions and L^2 M / 2 numbers of four bytes, mostly by far; times
///          are held in single precision while comparing.
/// Source:  Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova 2019, "Optimal checkpointing for
///          heterogeneous chains", arXiv:1911.13214, section 4, theorem 1.
[[nodiscard]] std::optional<ChainSchedule> optimal_chain(const Chain& chain, std::int64_t slots,
                                                         int threads = 1);

}  // namespace headroom::plan
