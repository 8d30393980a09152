#pragma once

#include <vector>

#include "costmodel/remedy_judge.h"

namespace headroom::cost {

/// What combining changes leads to.
struct Combinations {
  /// The cheapest combination that fits, for each kind of training: the question's own, and each
  /// that a change of kind kTraining leads to. If it is tight, also the cheapest
  /// comfortable one or, if there is none, the one with the most to spare.
  std::vector<Remedy> mending;
  /// Combinations of everything that helps, which do not fit.
  std::vector<Remedy> short_ones;
};

/// The kinds of training that are considered.
enum class Training : std::uint8_t { kSame, kAny };

/// Combines the changes of the question's framework.
///
/// Model:   changes that shard, keep data on the host or change what is trained make up a mode. The
///          combination of all other changes decides whether any plan of a mode fits: each of them
///          reduces memory, so that a subset of changes that do not suffice does not suffice. Then
///          the subsets of the changes that take time are tried, each with the largest micro-batch
///          that fits, and the quickest is kept. Changes without which it still fits, as quickly,
///          are dropped. Modes that use the host are looked at only where others are much slower
///          or do not fit.
[[nodiscard]] Combinations combined_remedies(RemedyJudge& judge, Training training);

}  // namespace headroom::cost
