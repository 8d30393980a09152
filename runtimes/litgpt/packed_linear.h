#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/quantised.h"

namespace headroom::ir::litgpt {

/// Linear4bit of bitsandbytes 0.41. The weight, quantised from fp16, is dequantised to fp16 and
/// cast before each product. The function's context, not a saved tensor, keeps the input. So the
/// input lives as long as the graph, which the next micro-batch's loss replaces.
/// Source: bitsandbytes 0.41.1 autograd/_functions.py, MatMul4Bit; nn/modules.py, Params4bit.cuda.
[[nodiscard]] torch::Tensor packed_linear(torch::Eager& eager,
                                          const transformers::QuantisedWeight& weight,
                                          const torch::Tensor& input, const torch::Tensor& bias);

}  // namespace headroom::ir::litgpt
