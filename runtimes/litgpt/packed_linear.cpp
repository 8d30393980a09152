#include "runtimes/litgpt/packed_linear.h"

#include "runtimes/torch/functions.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::litgpt {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Tensor;

Tensor whole_weight(Eager& eager, const transformers::QuantisedWeight& weight, DType dtype) {
  const bool nested = weight.offset.defined();
  const Tensor factors = nested ? eager.empty(weight.factors.shape(), DType::kFp32) : Tensor{};
  const Tensor half = eager.empty(weight.shape, DType::kFp16);
  return eager.empty(weight.shape, dtype);
}

}  // namespace

Tensor packed_linear(Eager& eager, const transformers::QuantisedWeight& weight, const Tensor& input,
                     const Tensor& bias) {
  torch::Record record(eager, {&input});
  Tensor output;
  {
    const torch::GradMode grad(eager, false);
    const Tensor whole = whole_weight(eager, weight, input.dtype());
    output = torch::linear(eager, input, whole, bias);
  }
  if (record.active()) {
    record.finish(output, [weight, kept = input](Eager& e, Gradients& grads, Node&) -> Gradients {
      const Tensor whole = whole_weight(e, weight, grads[0].dtype());
      Tensor gradient = e.empty(kept.shape(), grads[0].dtype());
      e.touch_cublas();
      e.run(GemmShape{.m = grads[0].elements() / weight.shape[0],
                      .n = weight.shape[1],
                      .k = weight.shape[0],
                      .dtype = grads[0].dtype(),
                      .layout = GemmLayout::kNN});
      return {gradient};
    });
  }
  return output;
}

}  // namespace headroom::ir::litgpt
