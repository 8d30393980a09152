// Linear layers of Transformer Engine, alone and behind a norm.
#include <utility>
#include <vector>

#include "model_ir/runtime/megatron/te_norm.h"
#include "model_ir/runtime/megatron/transformer_engine.h"
#include "model_ir/runtime/torch/ddp.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// The dims of a product of `rows` rows with a weight: forward, or the gradient of the rows.
GemmShape forward_dims(std::int64_t rows, const Shape& weight) {
  return {.m = rows, .n = weight[0], .k = weight[1], .layout = GemmLayout::kTN};
}
GemmShape backward_dims(std::int64_t rows, const Shape& weight) {
  return {.m = rows, .n = weight[1], .k = weight[0], .layout = GemmLayout::kNN};
}

/// general_gemm without an output of its own.
void run_gemm(const Runner& run, GemmShape dims) {
  run.process.touch_te_workspace();
  dims.dtype = run.context.dtype;
  run.eager().run(dims);
}

/// general_gemm: the output [m, n] of a product.
Tensor gemm(const Runner& run, const GemmShape& dims) {
  run_gemm(run, dims);
  return run.eager().empty({dims.m, dims.n}, run.context.dtype);
}

void communicate(const Runner& run, CollectiveKind kind, const Tensor& whole) {
  run.eager().run(CollectiveShape{.kind = kind,
                                  .bytes = bytes_of(whole.elements(), whole.dtype()).value(),
                                  .group = run.context.mesh.tensor.group()});
}

/// clear_tensor_data: the memory goes, whoever still holds the tensor.
void clear(const Runner& run, const Tensor& tensor) {
  run.eager().move_storage(tensor, {});
}

/// gather_along_first_dim
Tensor gather(const Runner& run, const Tensor& part) {
  const Shape& shape = part.shape();
  Tensor whole =
      run.eager().empty(shape.with(0, shape[0] * run.context.mesh.tensor.size), part.dtype());
  communicate(run, CollectiveKind::kAllGather, whole);
  return whole;
}

/// reduce_scatter_along_first_dim
Tensor scatter(const Runner& run, const Tensor& whole) {
  const Shape& shape = whole.shape();
  communicate(run, CollectiveKind::kReduceScatter, whole);
  return run.eager().empty(shape.with(0, shape[0] / run.context.mesh.tensor.size), whole.dtype());
}

/// The gradient of a weight: added to the gradient buffer inside its product, or a tensor.
struct WeightGradient {
  Tensor weight;
  Tensor bias;
};

/// `bias`: summed by the product's epilogue, in the type that the product writes.
WeightGradient weight_gradient(const Runner& run, const Shape& weight, std::int64_t rows,
                               bool bias) {
  const bool fused = run.context.megatron.accumulation_fusion;
  GemmShape dims{.m = weight[0], .n = weight[1], .k = rows, .layout = GemmLayout::kNT};
  WeightGradient result;
  if (fused) {
    if (bias) {
      result.bias = run.eager().empty({weight[0]}, run.context.grad_dtype);
    }
    dims.accumulate = true;  // Added to the gradient buffer.
    run_gemm(run, dims);
  } else {
    result.weight = gemm(run, dims);
    if (bias) {
      result.bias = run.eager().empty({weight[0]}, run.context.dtype);
    }
  }
  return result;
}

Tensor finish_weight(const Runner& run, Tensor gradient, const Shape& weight) {
  return gradient.defined() ? std::move(gradient) : run.process.dummy_gradient(weight);
}

/// Edges of `norm_linear`: input, norm weight, norm bias, weight, bias.
enum NormLinearEdge : std::uint8_t { kInput, kNormWeight, kNormBias, kWeight, kBias, kEdges };

Gradients norm_linear_gradients(const Runner& run, Gradients& grads, Node& node, bool gathers) {
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  const Tensor& input = saved[0];
  const Tensor normed = saved[3];
  const Shape weight = node.input_shapes[kWeight];
  const std::int64_t rows = grads[0].shape()[0];
  Gradients result(kEdges);
  Tensor normed_total = gathers ? gather(run, normed) : normed;
  Tensor product = gemm(run, backward_dims(rows, weight));
  Tensor through = product;
  if (gathers) {
    through = scatter(run, product);
  } else if (run.context.mesh.tensor.size > 1) {
    communicate(run, CollectiveKind::kAllReduce, product);
  }
  WeightGradient own = weight_gradient(run, weight, rows, node.wants(kBias));
  clear(run, normed);
  if (gathers) {
    clear(run, normed_total);
  }
  NormGradients norm = norm_backward(run, input, node.wants(kNormBias));
  through.reset();
  for (std::size_t i = 4; i < node.saved.size(); ++i) {
    clear(run, saved[i]);  // mu and rsigma.
  }
  result[kInput] = std::move(norm.input);
  result[kNormWeight] = std::move(norm.weight);
  result[kNormBias] = std::move(norm.bias);
  result[kWeight] = finish_weight(run, std::move(own.weight), weight);
  result[kBias] = std::move(own.bias);
  return result;
}

}  // namespace

Tensor norm_linear(const Runner& run, const Tensor& input, const NormWeights& norm,
                   const LinearWeights& linear, bool gemm_bias) {
  const bool gathers = run.context.sequence_parallel();
  const Tensor bias = gemm_bias ? linear.bias : Tensor{};
  Record record(run.eager(), {&input, &norm.weight, &norm.bias, &linear.weight, &bias});
  const NormOutput normed = norm_forward(run, input, norm);
  const Shape& weight = linear.weight.shape();
  Tensor total = gathers ? gather(run, normed.output) : normed.output;
  Tensor output = gemm(run, forward_dims(total.shape()[0], weight));
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
  Tensor gradient = cut == Cut::kRow && sequence ? gather(run, grads[0]) : grads[0];
  const std::int64_t rows = gradient.shape()[0];
  const Tensor input = cut == Cut::kColumn && sequence ? gather(run, saved[1]) : saved[1];
  Tensor through = gemm(run, backward_dims(rows, weight));
  if (cut == Cut::kColumn && run.context.mesh.tensor.size > 1) {
    if (sequence) {
      through = scatter(run, through);
    } else {
      communicate(run, CollectiveKind::kAllReduce, through);
    }
  }
  WeightGradient own = weight_gradient(run, weight, rows, false);
  if (cut == Cut::kRow && sequence) {
    clear(run, gradient);
  }
  Gradients result(2);
  result[0] = finish_weight(run, std::move(own.weight), weight);
  result[1] = run.eager().alias(through, node.input_shapes[1], true);
  return result;
}

}  // namespace

Tensor linear(const Runner& run, const Tensor& input, const Tensor& weight, Cut cut) {
  const Shape& shape = weight.shape();
  const bool sequence = run.context.sequence_parallel();
  Record record(run.eager(), {&weight, &input});
  Tensor total = cut == Cut::kColumn && sequence ? gather(run, input) : input;
  Tensor output = gemm(run, forward_dims(total.shape()[0], shape));
  total.reset();
  if (cut == Cut::kRow && run.context.mesh.tensor.size > 1) {
    if (sequence) {
      output = scatter(run, output);
    } else {
      communicate(run, CollectiveKind::kAllReduce, output);
    }
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
