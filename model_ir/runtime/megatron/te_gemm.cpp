#include "model_ir/runtime/megatron/te_gemm.h"

#include <utility>

#include "model_ir/runtime/torch/ddp.h"

namespace headroom::ir::megatron {

using torch::Shape;
using torch::Tensor;

GemmShape forward_dims(std::int64_t rows, const Shape& weight, DType dtype) {
  return {.m = rows, .n = weight[0], .k = weight[1], .dtype = dtype, .layout = GemmLayout::kTN};
}

GemmShape backward_dims(std::int64_t rows, const Shape& weight, DType dtype) {
  return {.m = rows, .n = weight[1], .k = weight[0], .dtype = dtype, .layout = GemmLayout::kNN};
}

GemmShape weight_dims(std::int64_t rows, const Shape& weight, DType dtype) {
  return {.m = weight[0], .n = weight[1], .k = rows, .dtype = dtype, .layout = GemmLayout::kNT};
}

void run_gemm(const Runner& run, const GemmShape& dims) {
  run.process.touch_te_workspace();
  run.eager().run(dims);
}

Tensor gemm(const Runner& run, const GemmShape& dims) {
  run_gemm(run, dims);
  return run.eager().empty({dims.m, dims.n}, run.context.dtype);
}

void communicate(const Runner& run, CollectiveKind kind, const Tensor& whole) {
  run.eager().run(CollectiveShape{.kind = kind,
                                  .bytes = bytes_of(whole.elements(), whole.dtype()).value(),
                                  .group = run.context.mesh.tensor.group()});
}

Tensor gather(const Runner& run, const Tensor& part) {
  const Shape& shape = part.shape();
  Tensor whole =
      run.eager().empty(shape.with(0, shape[0] * run.context.mesh.tensor.size), part.dtype());
  communicate(run, CollectiveKind::kAllGather, whole);
  return whole;
}

Tensor scatter(const Runner& run, const Tensor& whole) {
  const Shape& shape = whole.shape();
  communicate(run, CollectiveKind::kReduceScatter, whole);
  return run.eager().empty(shape.with(0, shape[0] / run.context.mesh.tensor.size), whole.dtype());
}

void clear(const Runner& run, const Tensor& tensor) {
  run.eager().move_storage(tensor, {});
}

WeightGradient weight_gradient(const Runner& run, const GemmShape& dims, bool bias) {
  WeightGradient result;
  if (run.context.megatron.accumulation_fusion) {
    if (bias) {
      result.bias = run.eager().empty({dims.m}, run.context.grad_dtype);
    }
    GemmShape added = dims;
    added.accumulate = true;  // To the gradient buffer.
    run_gemm(run, added);
  } else {
    result.weight = gemm(run, dims);
    if (bias) {
      result.bias = run.eager().empty({dims.m}, run.context.dtype);
    }
  }
  return result;
}

Tensor finish_weight(const Runner& run, Tensor gradient, const Shape& weight) {
  return gradient.defined() ? std::move(gradient) : run.process.dummy_gradient(weight);
}

}  // namespace headroom::ir::megatron
