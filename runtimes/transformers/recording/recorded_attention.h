#pragma once

#include <span>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// One recorded call of torch.nn.functional.scaled_dot_product_attention.
struct AttentionCall {
  const Instruction& recorded;
  std::span<const torch::Tensor> inputs;  ///< Queries, keys, values and perhaps a mask.
  const torch::Tensor& padding;           ///< The mask of a batch with padding; may be undefined.
};

/// Runs the call, which chooses its kernel by device and sizes. With padding, heads of keys and
/// values are repeated first. Source: huggingface/transformers integrations/sdpa_attention.py,
/// use_gqa_in_sdpa.
[[nodiscard]] torch::Tensor recorded_attention(torch::Eager& eager, const Model& model,
                                               const AttentionCall& call);

}  // namespace headroom::ir::transformers
