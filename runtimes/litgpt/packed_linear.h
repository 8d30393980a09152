#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/quantised.h"

namespace headroom::ir::litgpt {

/// Linear4bit as bitsandbytes 0.41 ran it: the weight, quantised from fp16, is dequantised to fp16
/// and cast before each product. The input is kept by the function's context and not as a saved
/// tensor, so it lives until the graph goes: until the loss of the next micro-batch has its name.
/// Source: bitsandbytes 0.41.1 autograd/_functions.py, MatMul4Bit; nn/modules.py, Params4bit.cuda.
[[nodiscard]] torch::Tensor packed_linear(torch::Eager& eager,
                                          const transformers::QuantisedWeight& weight,
                                          const torch::Tensor& input, const torch::Tensor& bias);

}  // namespace headroom::ir::litgpt
