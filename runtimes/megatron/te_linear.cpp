// Linear layers of Transformer Engine, alone and after a norm.
#include <utility>
#include <vector>

#include "runtimes/megatron/fp8_linear.h"
#include "runtimes/megatron/te_gemm.h"
#include "runtimes/megatron/te_norm.h"
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// The gradient of a weight, or only that of its bias if the product is owed. `operands` live until
/// the product has run.
WeightGradient owed_or_own(const Runner& run, const GemmShape& dims, bool bias,
                           std::vector<Tensor> operands) {
  if (!run.process.owes_weights()) {
    return weight_gradient(run, dims, bias);
  }
  run.process.run_or_owe([run, dims, operands = std::move(operands)] {
    static_cast<void>(weight_gradient(run, dims, false));
  });
  return {.weight = {},
          .bias = bias ? run.eager().empty({dims.m}, run.context.grad_dtype) : Tensor{}};
}

Gradients norm_linear_gradients(const Runner& run, Gradients& grads, Node& node, bool gathers) {
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  const Tensor& input = saved[0];
  const Tensor normed = saved[3];
  const Shape weight = node.input_shapes[NormLinearEdge::kWeight];
  const std::int64_t rows = grads[0].shape()[0];
  Gradients result(NormLinearEdge::kCount);
  Tensor normed_total = gathers ? gather(run, normed, Beside::kInBulk) : normed;
  const GemmShape dims = backward_dims(rows, weight, run.context.dtype);
  Tensor product = gathers ? shared_gemm(run, dims) : gemm(run, dims);
  Tensor through = product;
  if (gathers) {
    through = scatter(run, product, Beside::kInBulk);
  } else if (run.context.grid.tensor.size > 1) {
    communicate(run, CollectiveKind::kAllReduce, product);
  }
  WeightGradient own = owed_or_own(run, weight_dims(rows, weight, run.context.dtype),
                                   node.wants(NormLinearEdge::kBias), {normed_total, grads[0]});
  if (!run.process.owes_weights()) {
    clear(run, normed);
  }
  if (gathers && !run.process.owes_weights()) {
    clear(run, normed_total);
  }
  NormGradients norm = norm_backward(run, input, node.wants(NormLinearEdge::kNormBias));
  through.reset();
  for (std::size_t i = 4; i < node.saved.size(); ++i) {
    clear(run, saved[i]);  // mu and rsigma.
  }
  result[NormLinearEdge::kInput] = std::move(norm.input);
  result[NormLinearEdge::kNormWeight] = std::move(norm.weight);
  result[NormLinearEdge::kNormBias] = std::move(norm.bias);
  result[NormLinearEdge::kWeight] = finish_weight(run, std::move(own.weight), weight);
  result[NormLinearEdge::kBias] = std::move(own.bias);
  return result;
}

}  // namespace

Tensor norm_linear(const Runner& run, const Tensor& input, const NormWeights& norm,
                   const LinearWeights& linear, bool gemm_bias) {
  const Tensor bias = gemm_bias ? linear.bias : Tensor{};
  if (run.context.fp8()) {
    return fp8_norm_linear(run, input, norm, {.weight = linear.weight, .bias = bias});
  }
  const bool gathers = run.context.sequence_parallel();
  Record record(run.eager(), {&input, &norm.weight, &norm.bias, &linear.weight, &bias});
  const NormOutput normed = norm_forward(run, input, norm);
  const Shape& weight = linear.weight.shape();
  Tensor total = gathers ? gather(run, normed.output, Beside::kInParts) : normed.output;
  Tensor output = gemm(run, forward_dims(total.shape()[0], weight, run.context.dtype));
  total.reset();
  if (record.active()) {
    record.save(input);
    record.save(linear.weight);
    record.save(norm.weight);
    record.save(normed.output);
    record.save(normed.mean);
    record.save(normed.deviation);
    record.finish(output, [run, gathers](Eager&, Gradients& grads, Node& node) -> Gradients {
      return norm_linear_gradients(run, grads, node, gathers);
    });
  }
  return output;
}

namespace {

Gradients linear_gradients(const Runner& run, Gradients& grads, Node& node, Cut cut) {
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  const Shape weight = node.input_shapes[0];
  const bool sequence = run.context.sequence_parallel();
  Tensor gradient =
      cut == Cut::kRow && sequence ? gather(run, grads[0], Beside::kInParts) : grads[0];
  const std::int64_t rows = gradient.shape()[0];
  const Tensor input =
      cut == Cut::kColumn && sequence ? gather(run, saved[1], Beside::kInBulk) : saved[1];
  const GemmShape dims = backward_dims(rows, weight, run.context.dtype);
  const Tensor product = cut == Cut::kColumn && sequence ? shared_gemm(run, dims) : gemm(run, dims);
  Tensor through = product;
  if (cut == Cut::kColumn && run.context.grid.tensor.size > 1) {
    if (sequence) {
      through = scatter(run, product, Beside::kInBulk);
    } else {
      communicate(run, CollectiveKind::kAllReduce, product);
    }
  }
  const bool owed = run.process.owes_weights();
  WeightGradient own =
      owed_or_own(run, weight_dims(rows, weight, run.context.dtype), false, {input, gradient});
  if (cut == Cut::kColumn && sequence && !owed) {
    clear(run, input);
  }
  if (cut == Cut::kRow && sequence && !owed) {
    clear(run, gradient);
  }
  Gradients result(2);
  result[0] = finish_weight(run, std::move(own.weight), weight);
  result[1] = run.eager().alias(through, node.input_shapes[1], true);
  return result;
}

}  // namespace

Tensor linear(const Runner& run, const Tensor& input, const Tensor& weight, Cut cut,
              KeptInput kept) {
  if (run.context.fp8()) {
    return fp8_linear(run, input, weight, cut, kept);
  }
  const Shape& shape = weight.shape();
  const bool sequence = run.context.sequence_parallel();
  Record record(run.eager(), {&weight, &input});
  Tensor total = cut == Cut::kColumn && sequence ? gather(run, input, Beside::kInParts) : input;
  const GemmShape dims = forward_dims(total.shape()[0], shape, run.context.dtype);
  Tensor output = cut == Cut::kRow && sequence ? gemm_and_scatter(run, dims) : gemm(run, dims);
  total.reset();
  if (cut == Cut::kRow && !sequence && run.context.grid.tensor.size > 1) {
    communicate(run, CollectiveKind::kAllReduce, output);
  }
  if (record.active()) {
    record.save(weight);
    record.save(input);
    record.finish(output, [run, cut](Eager&, Gradients& grads, Node& node) -> Gradients {
      return linear_gradients(run, grads, node, cut);
    });
  }
  return output;
}

}  // namespace headroom::ir::megatron
