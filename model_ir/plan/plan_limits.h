#pragma once

#include <cstdint>

namespace headroom::ir {

/// The largest values that options and plan files may have. With the bounds on a model's
/// dimensions, no tensor of an accepted plan can overflow 64 bits. The largest are the scores of
/// eager attention, with tokens * sequence * heads elements.
inline constexpr std::int64_t kMostMicroBatch = std::int64_t{1} << 20;
inline constexpr std::int64_t kMostSequence = std::int64_t{1} << 21;
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;  ///< Micro-batch * sequence.
inline constexpr std::int64_t kMostAccumulation = std::int64_t{1} << 20;
inline constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;
inline constexpr std::int64_t kMostSteps = 16;
inline constexpr std::int64_t kMostLoraRank = std::int64_t{1} << 14;
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;  ///< Elements of one tensor.
inline constexpr std::int64_t kMostRecomputeStep = 10'000;

}  // namespace headroom::ir
