#pragma once

#include "model_ir/plan/device_work.h"

namespace headroom::ir {

/// The share of tokens that have at least one of their `shape.top_k` experts in a given one of
/// `parts` equal parts of the `shape.experts` experts, if all choices are equally likely: 1 - C(E -
/// E/p, k) / C(E, k).
///
/// Shapes:  requires a kTokenExchange and `parts` of 1 or more.
[[nodiscard]] double reached_share(const CollectiveShape& shape, double parts);

}  // namespace headroom::ir
