#pragma once

#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::transformers {

/// A norm module of the library, expanded as in its Python code. `bias` may be undefined.
/// Source: huggingface/transformers models/*/modeling_*.py, the RMSNorm and LayerNorm classes.
[[nodiscard]] torch::Tensor norm(torch::Eager& eager, NormKind kind, const torch::Tensor& input,
                                 const torch::Tensor& weight, const torch::Tensor& bias);

/// An activation function. `input` is an argument, so its caller holds it.
[[nodiscard]] torch::Tensor activation(torch::Eager& eager, Activation kind,
                                       const torch::Tensor& input);

/// BLOOM's GeLUFunction: the tanh formula; some of its temporaries are alive at once.
/// Source: huggingface/transformers modeling_bloom.py, bloom_gelu_forward and bloom_gelu_back.
[[nodiscard]] torch::Tensor python_gelu(torch::Eager& eager, const torch::Tensor& input);

}  // namespace headroom::ir::transformers
