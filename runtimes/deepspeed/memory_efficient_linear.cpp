#include "runtimes/deepspeed/memory_efficient_linear.h"

#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Tensor;

namespace {

constexpr std::size_t kInput = 0;
constexpr std::size_t kWeight = 1;
constexpr std::size_t kBias = 2;

Gradients gradients_of(Eager& eager, Gradients& grads, Node& node) {
  const torch::Unpacked saved(eager, node);
  const Tensor& output = grads[0];
  const std::int64_t out = output.shape()[-1];
  const std::int64_t in = node.input_shapes[kInput][-1];
  const std::int64_t rows = output.elements() / out;
  Gradients result(3);
  if (node.wants(kInput)) {
    result[kInput] = eager.empty(node.input_shapes[kInput], output.dtype());
    eager.touch_cublas();
    eager.run(GemmShape{
        .m = rows, .n = in, .k = out, .dtype = output.dtype(), .layout = GemmLayout::kNN});
  }
  if (node.wants(kWeight)) {
    result[kWeight] = eager.empty(node.input_shapes[kWeight], output.dtype());
    eager.touch_cublas();
    eager.run(GemmShape{
        .m = out, .n = in, .k = rows, .dtype = output.dtype(), .layout = GemmLayout::kNT});
  }
  if (node.wants(kBias)) {
    result[kBias] = torch::sum_to(eager, output, node.input_shapes[kBias]);
  }
  return result;
}

}  // namespace

Tensor memory_efficient_linear(Eager& eager, const Tensor& input, const Tensor& weight,
                               const Tensor& bias) {
  const std::int64_t out = weight.shape()[0];
  const std::int64_t in = input.shape()[-1];
  torch::Record record(eager, {&input, &weight, &bias});
  Tensor output = eager.empty(input.shape().with(-1, out), input.dtype());
  if (bias.defined() && input.shape().rank() == 2) {
    eager.touch_cublaslt();
  } else {
    eager.touch_cublas();
  }
  eager.run(GemmShape{.m = input.elements() / in, .n = out, .k = in, .dtype = input.dtype()});
  record.save(input);
  record.save(weight);
  record.save(bias);
  record.finish(output, gradients_of);
  return output;
}

}  // namespace headroom::ir::deepspeed
