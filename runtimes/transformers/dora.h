#pragma once

#include "model_ir/graph/op.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

/// DoRA: the sum of LoRA and the weight is scaled to a trained norm per output.
/// Source: huggingface/peft 0.21, src/peft/tuners/lora/dora.py, DoraLinearLayer.
namespace headroom::ir::transformers {

/// Creates the magnitude vector from the norm of the frozen weight plus the new adapter.
void add_magnitude(torch::Eager& eager, const Model& model, TensorId weight, Adapter& adapter);

/// The term that DoRA adds to `base`, the result of the frozen layer; `input` has the adapter's
/// type. With dropout, the adapter reads the input after dropout, and the frozen product is
/// recomputed from it.
[[nodiscard]] torch::Tensor dora_delta(torch::Eager& eager, const Model& model, const Op& op,
                                       const torch::Tensor& input, const torch::Tensor& base);

}  // namespace headroom::ir::transformers
