#pragma once

#include <optional>

#include "model_ir/base/error.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/recording/typed_code.h"

namespace headroom::ir::transformers {

/// The error for a batch with padding that a recording made without any cannot answer.
///
/// transformers makes one mask for all layers then (masking_utils.py), and every layer's attention
/// gets it. That is known of models whose layers all have fused attention without a mask of their
/// own, without windows. Nothing changes where eager attention gets a mask of ones that the model
/// makes itself.
[[nodiscard]] std::optional<Error> padding_trouble(const Recording& recording,
                                                   const TypedCode& code);

/// The mask of the call, boolean [B, 1, S, S], from the batch's [B, S]; undefined where attention
/// gets none that was not recorded.
[[nodiscard]] torch::Tensor make_padded_mask(torch::Eager& eager, const Model& model,
                                             const torch::Tensor& padding);

}  // namespace headroom::ir::transformers
