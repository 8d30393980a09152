#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/model_call.h"

namespace headroom::ir::transformers {

/// One call of an encoder-decoder model: the decoder reads the labels shifted to the right.
/// Source: huggingface/transformers modeling_t5.py, T5ForConditionalGeneration and T5Stack.
[[nodiscard]] ModelOutput forward_encoder_decoder(torch::Eager& eager, Model& model,
                                                  const torch::Tensor& ids);

}  // namespace headroom::ir::transformers
