#pragma once

#include <cstdint>
#include <functional>

#include "runtimes/torch/eager.h"

namespace headroom::ir::transformers {

/// Sizes of the scores to which a relative position bias is added.
struct BiasForm {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  bool positions_given = false;  ///< The queries' positions already exist.
  bool causal = false;           ///< A decoder's self-attention: one direction only.
};

/// T5's learned bias [1, A, S, S'] for the bucketed distances of queries and keys; `look_up`
/// returns rows of the table [buckets, A].
/// Source: huggingface/transformers modeling_t5.py, T5Attention.compute_bias and
/// _relative_position_bucket.
[[nodiscard]] torch::Tensor relative_bias(
    torch::Eager& eager, const std::function<torch::Tensor(const torch::Tensor&)>& look_up,
    const BiasForm& form);

}  // namespace headroom::ir::transformers
