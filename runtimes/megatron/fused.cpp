#include "runtimes/megatron/fused.h"

#include <utility>

#include "runtimes/torch/compiled_graph.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// A compiled sum over the tokens, in one kernel or with partial sums first.
Tensor sum_rows(Eager& eager, const Tensor& gradient, std::int64_t width) {
  const std::int64_t parts =
      torch::parts_of_sum(eager.device().multiprocessors, gradient.elements() / width, width);
  Tensor partial;
  if (parts > 1) {
    partial = eager.empty({parts, width}, DType::kFp32, TensorRole::kWorkspace);
    torch::launch(eager, {&partial});
  }
  torch::launch(eager, {&gradient, &partial});
  return eager.empty({width}, gradient.dtype());
}

}  // namespace

Tensor bias_dropout_add(const Runner& run, const Tensor& input, const Tensor& bias,
                        const Tensor& residual, double dropout) {
  Eager& eager = run.eager();
  Record record(eager, {&input, &bias, &residual});
  Tensor mask;
  Tensor output;
  {
    Tensor seed;
    if (dropout > 0) {
      seed = torch::filled(eager, {1}, DType::kInt64);
      mask = eager.empty(input.shape(), DType::kBool);
    }
    output = eager.empty(residual.shape(), residual.dtype());
  }
  torch::launch(eager, {&input, &bias, &residual, &mask, &output});
  record.save(mask);
  record.finish(output, [dropout](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Gradients result(3);
    result[0] = grads[0];
    if (dropout > 0) {
      Tensor kept = node.saved[0].unpack(e);
      result[0] = e.empty(grads[0].shape(), grads[0].dtype());
      torch::launch(e, {&grads[0], &kept, &result[0]});
      kept.reset();
      node.saved[0].reset();
    }
    if (node.wants(1)) {
      result[1] = sum_rows(e, grads[0], node.input_shapes[1].elements());
    }
    result[2] = grads[0];
    return result;
  });
  return output;
}

namespace {

Tensor gated(const Runner& run, const Tensor& input, const Tensor& bias) {
  Eager& eager = run.eager();
  const Shape& shape = input.shape();
  Record record(eager, {&input, &bias});
  record.save(input);
  record.save(bias);
  Tensor output = eager.empty(shape.with(-1, shape[-1] / 2), input.dtype());
  torch::launch(eager, {&input, &bias, &output});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    const Tensor gradient = e.empty(node.input_shapes[0], grads[0].dtype());
    torch::launch(e, {&grads[0], &saved[0], &gradient});
    return {gradient, node.wants(1) ? gradient : Tensor{}};
  });
  return output;
}

}  // namespace

Tensor swiglu(const Runner& run, const Tensor& input) {
  return gated(run, input, Tensor{});
}

Tensor bias_swiglu(const Runner& run, const Tensor& input, const Tensor& bias) {
  return gated(run, input, bias);
}

Tensor weighted_gate(const Runner& run, const Tensor& input, const Tensor& probabilities,
                     const Tensor& offset) {
  Eager& eager = run.eager();
  Record record(eager, {&input, &probabilities});
  const bool in_product = run.context.megatron.fused_experts;
  Tensor output = eager.empty(input.shape().with(-1, input.shape()[-1] / 2), input.dtype());
  if (!in_product) {
    torch::launch_into(eager, output, {&input, &probabilities});
  }
  record.save(input);
  record.save(probabilities);
  record.save(offset);
  const DType weights = probabilities.dtype();
  record.finish(output, [weights, in_product](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    Gradients inputs{e.empty(node.input_shapes[0], grads[0].dtype()),
                     e.empty(node.input_shapes[1], weights)};
    // Reads the input and writes its gradient, which has the same size.
    if (!in_product) {
      torch::launch(e, {&grads[0], &inputs[0], &inputs[0], &inputs[1]});
    }
    return inputs;
  });
  return output;
}

Tensor bias_gelu(const Runner& run, const Tensor& input, const Tensor& bias) {
  Eager& eager = run.eager();
  Record record(eager, {&input, &bias});
  record.save(input);
  record.save(bias);
  Tensor output = eager.empty(input.shape(), input.dtype());
  torch::launch(eager, {&input, &bias, &output});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    const Tensor gradient = e.empty(node.input_shapes[0], grads[0].dtype());
    torch::launch(e, {&grads[0], &saved[0], &gradient});
    return {gradient, node.wants(1) ? gradient : Tensor{}};
  });
  return output;
}

}  // namespace headroom::ir::megatron
