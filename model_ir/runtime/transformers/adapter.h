#pragma once

#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/transformers/model.h"

namespace headroom::ir::transformers {

/// A frozen linear layer with its LoRA branch, as PEFT runs it.
/// Source: huggingface/peft 0.21, src/peft/tuners/lora/layer.py, Linear.forward.
[[nodiscard]] torch::Tensor adapted_linear(torch::Eager& eager, const Model& model,
                                           const torch::Tensor& input, const torch::Tensor& weight,
                                           const torch::Tensor& bias, const Adapter& adapter);

}  // namespace headroom::ir::transformers
