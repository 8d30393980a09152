#include "model_ir/runtime/transformers/attention.h"

#include <utility>

#include "model_ir/runtime/torch/functions.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

/// cat((-x2, x1)) of the halves of the last dim.
Tensor rotate_half(Eager& eager, const Tensor& x) {
  const std::int64_t half = x.shape()[-1] / 2;
  const Tensor first = torch::slice_last(eager, x, half);
  const Tensor second = torch::slice_last(eager, x, half);
  Tensor negated = torch::negate(eager, second);
  return torch::cat_last(eager, negated, first);
}

Tensor rotate(Eager& eager, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  Tensor left = torch::mul(eager, x, cos);
  Tensor turned = rotate_half(eager, x);
  Tensor right = torch::mul(eager, turned, sin);
  turned.reset();
  return torch::add(eager, left, right);
}

/// Softmax attention in Python: scores, mask, fp32 softmax, product.
AttentionOutput eager_attention(Eager& eager, const ModelSpec& spec, const AttentionInput& input) {
  const std::int64_t groups = input.q.shape()[1] / input.k.shape()[1];
  const Tensor keys = torch::repeat_heads(eager, input.k, groups);
  const Tensor values = torch::repeat_heads(eager, input.v, groups);
  const Shape& q = input.q.shape();
  const Shape scores{q[0], q[1], q[2], keys.shape()[2]};
  Tensor raw = torch::batched_matmul(eager, input.q, keys, scores);
  Tensor weights = torch::scale(eager, raw);
  raw.reset();
  if (spec.attention_softcap > 0) {
    weights = torch::scale(eager, weights);
    weights = torch::tanh(eager, weights);
    weights = torch::scale(eager, weights);
  }
  if (input.mask.defined()) {
    weights = torch::add_constant(eager, weights, input.mask);
  }
  {
    Tensor wide = torch::softmax_last(eager, weights, DType::kFp32);
    Tensor narrow = torch::to(eager, wide, input.q.dtype());
    wide.reset();
    weights = std::move(narrow);
  }
  weights = torch::dropout(eager, weights, input.dropout);
  Tensor output =
      torch::batched_matmul(eager, weights, values, Shape{q[0], q[1], q[2], input.v.shape()[3]});
  Tensor merged = torch::merge_heads(eager, output);
  output.reset();
  return {std::move(merged), std::move(weights)};
}

Tensor sdpa_attention(Eager& eager, const AttentionInput& input) {
  torch::SdpaOptions options;
  options.dropout = input.dropout;
  options.causal = !input.mask.defined();
  if (input.mask.defined()) {
    options.mask = input.mask;
  }
  const std::int64_t groups = input.q.shape()[1] / input.k.shape()[1];
  Tensor output;
  if (options.mask) {
    // use_gqa_in_sdpa: only without a mask does the kernel get unrepeated keys and values.
    const Tensor keys = torch::repeat_heads(eager, input.k, groups);
    const Tensor values = torch::repeat_heads(eager, input.v, groups);
    output = torch::sdpa(eager, input.q, keys, values, options);
  } else {
    output = torch::sdpa(eager, input.q, input.k, input.v, options);
  }
  return torch::merge_heads(eager, output);
}

}  // namespace

Tensor split(Eager& eager, const Tensor& input, std::int64_t head_dim) {
  return input.shape().rank() == 4 ? input
                                   : torch::split_heads(eager, input, input.shape()[2] / head_dim);
}

Tensor apply_rope(Eager& eager, const ModelSpec& spec, const Tensor& x, const Tensor& cos,
                  const Tensor& sin) {
  const std::int64_t rotated = cos.shape()[-1];
  const bool partial = spec.family == Family::kPhi3 || rotated != x.shape()[-1];
  if (!partial) {
    return rotate(eager, x, cos, sin);
  }
  const Tensor turning = torch::slice_last(eager, x, rotated);
  const Tensor passing = torch::slice_last(eager, x, x.shape()[-1] - rotated);
  Tensor turned = rotate(eager, turning, cos, sin);
  return torch::cat_last(eager, turned, passing);
}

AttentionOutput attention(Eager& eager, const ParallelPlan& plan, const ModelSpec& spec,
                          const AttentionInput& input) {
  if (plan.attention == AttentionKind::kEager) {
    return eager_attention(eager, spec, input);
  }
  return {sdpa_attention(eager, input), {}};
}

}  // namespace headroom::ir::transformers
