#include "model_ir/runtime/megatron/fused.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "model_ir/runtime/torch/launch.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// The divisor of `number` that is nearest to `target`; of two, the smaller.
std::int64_t nearest_divisor(std::int64_t number, std::int64_t target) {
  std::int64_t best = 1;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0 && std::abs(divisor - target) < std::abs(best - target)) {
      best = divisor;
    }
  }
  return best;
}

/// How many parts a compiled sum of [rows, width] over its rows is cut into; 1: not at all.
/// Source: pytorch/pytorch 2.11, torch/_inductor/choices.py, reduction_split_factor;
///         torch/_inductor/ir.py, Reduction.num_splits.
std::int64_t parts_of_sum(std::int64_t multiprocessors, std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kFewest = 32;
  constexpr std::int64_t kMost = 512;
  constexpr std::int64_t kThreads = 2048;  // Of a multiprocessor.
  constexpr std::int64_t kBlock = 256;
  constexpr std::int64_t kRowsPerThread = 4;
  constexpr std::int64_t kColumnsPerBlock = 128;
  constexpr std::int64_t kEven = 20;        // A divisor so near is preferred,
  constexpr std::int64_t kEvenOfMost = 50;  // with the longest parts one so near.
  if (rows <= kFewest || width >= multiprocessors * 2 * kFewest) {
    return 1;
  }
  const std::int64_t threads = multiprocessors * kThreads;
  std::int64_t split = kFewest;
  if (rows * width >= kMost * threads) {
    const std::int64_t nearest = nearest_divisor(rows, kMost);
    split = std::abs(nearest - kMost) < kEvenOfMost ? nearest : kMost;
  } else if (rows * width >= kFewest * threads) {
    const std::int64_t blocks =
        ceil_div(threads / kBlock, ceil_div(width, kColumnsPerBlock)) * kRowsPerThread;
    const std::int64_t target = ceil_div(rows, blocks);
    const std::int64_t nearest = nearest_divisor(rows, target);
    split = std::abs(target - nearest) < kEven ? std::max(nearest, kFewest) : target;
  }
  return ceil_div(rows, kRowsPerThread * split);
}

/// A compiled sum over the tokens: in one go, or of parts first.
Tensor sum_rows(Eager& eager, const Tensor& gradient, std::int64_t width) {
  const std::int64_t parts =
      parts_of_sum(eager.device().multiprocessors, gradient.elements() / width, width);
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
