#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// The masks of one forward. Undefined: the attention kernel needs none.
struct Masks {
  torch::Tensor full;    ///< For layers that see every earlier token.
  torch::Tensor window;  ///< For layers with a window.
};

/// What the mask of one forward depends on.
struct MaskInput {
  torch::Tensor padding;       ///< [B, visible tokens]; undefined: none is passed.
  DType dtype = DType::kBf16;  ///< Type of the additive mask for eager attention.
};

/// Makes the masks: boolean [1, 1, S, S] for sdpa, additive [B, 1, S, S] for eager attention.
/// Source: huggingface/transformers masking_utils.py, create_causal_mask,
/// create_sliding_window_causal_mask, sdpa_mask and eager_mask.
[[nodiscard]] Masks make_masks(torch::Eager& eager, const Model& model, const MaskInput& input);

/// The same for a batch with padding in an encoder, where every token sees all that are none:
/// boolean [B, 1, S, S] for sdpa, additive for eager attention. Requires `input.padding`.
/// Source: huggingface/transformers masking_utils.py, create_bidirectional_mask.
[[nodiscard]] torch::Tensor make_bidirectional_mask(torch::Eager& eager, const Model& model,
                                                    const MaskInput& input);

/// (1.0 - mask.to(dtype)) * lowest number: [B, 1, 1, S], which an encoder adds to its scores until
/// 4.57. Source: modeling_utils.py, get_extended_attention_mask, invert_attention_mask.
[[nodiscard]] torch::Tensor inverted_mask(torch::Eager& eager, const torch::Tensor& present,
                                          DType dtype);

/// The bias of ALiBi [B*A, 1, S]. Source: modeling_bloom.py, build_alibi_tensor.
[[nodiscard]] torch::Tensor make_alibi(torch::Eager& eager, const Model& model, DType dtype);

/// Temporaries of a scan (cumsum) over `rows` rows; cub needs them only for a single row.
void scan_scratch(torch::Eager& eager, std::int64_t rows, DType dtype);

}  // namespace headroom::ir::transformers
