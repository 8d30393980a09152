#include <utility>

#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::torch {
namespace {

Tensor heads_like(Eager& eager, const Shape& shape, DType dtype, Layout layout = Layout::kSwapped) {
  Tensor result = eager.empty(shape, dtype);
  result->layout = layout;
  return result;
}

/// Whether a tensor [B, A, S, D] seen as [B, S, A, D] is contiguous.
bool rows_first(const Tensor& heads) {
  const Shape& shape = heads.shape();
  return heads->layout == Layout::kSwapped || shape[1] == 1 || shape[2] == 1;
}

/// Backward of flash attention 2.
/// Source: pytorch/pytorch aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp,
/// mha_bwd: sequence rounded to 128, head size to 32 (to 64 above 128).
Gradients flash_gradients(Eager& eager, Gradients& grads, Node& node) {
  const Unpacked saved(eager, node);
  const Shape q = node.input_shapes[0];
  const Shape k = node.input_shapes[1];
  const DType dtype = grads[0].dtype();
  const std::int64_t rows = align_up(q[2], 128);
  const std::int64_t width = align_up(q[3], q[3] <= 128 ? 32 : 64);
  // Saved: key, query, value, log-sum-exp, output. The kernel wants grad and output contiguous as
  // [B, S, A, D].
  Tensor grad_rows = rows_first(grads[0]) ? Tensor{} : eager.empty(q, dtype);
  Tensor output_rows = rows_first(saved[4]) ? Tensor{} : eager.empty(q, dtype);
  Tensor dq = heads_like(eager, q, dtype, saved[1]->layout);
  Tensor dk = heads_like(eager, k, dtype, saved[0]->layout);
  Tensor dv = heads_like(eager, k, dtype, saved[2]->layout);
  Tensor softmax_sum = eager.empty({q[0], q[1], rows}, DType::kFp32, TensorRole::kWorkspace);
  Tensor dq_sum = eager.empty({q[0], rows, q[1], width}, DType::kFp32, TensorRole::kWorkspace);
  if (q[1] != k[1]) {
    Tensor dk_wide = heads_like(eager, k.with(1, q[1]), dtype);
    Tensor dv_wide = heads_like(eager, k.with(1, q[1]), dtype);
    dv_wide.reset();
    dk_wide.reset();
  }
  dq_sum.reset();
  softmax_sum.reset();
  return {dq, dk, dv};
}

Tensor flash(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v, double dropout) {
  Record record(eager, {&q, &k, &v});
  record.save(k);
  record.save(q);
  record.save(v);
  const Shape& shape = q.shape();
  Tensor output = heads_like(eager, shape, q.dtype(), q->layout);
  Tensor log_sum = eager.empty({shape[0], shape[1], shape[2]}, DType::kFp32);
  Tensor seed = eager.empty({2}, DType::kInt64);
  Tensor offset = eager.empty({1}, DType::kInt64);
  if (dropout > 0) {
    const Tensor state = eager.empty({2}, DType::kInt64);
  }
  if (record.active()) {
    record.save(log_sum);
    record.save(output);
    record.save(seed);
    record.save(offset);
    record.finish(output, flash_gradients);
  }
  log_sum.reset();
  seed.reset();
  offset.reset();
  return output;
}

/// Backward of memory-efficient attention: the three gradients, the row sums of grad * output, and
/// the kernel's fp32 query gradient where it needs one.
/// Source: aten/src/ATen/native/transformers/cuda/attention_backward.cu and
/// mem_eff_attention/kernel_backward.h (GradQTempStorage: 16 bytes before each 64-row block).
Gradients efficient_gradients(Eager& eager, Gradients& grads, Node& node) {
  const Unpacked saved(eager, node);
  const Shape q = node.input_shapes[0];
  const Shape k = node.input_shapes[1];
  const DType dtype = grads[0].dtype();
  Tensor dq = heads_like(eager, q, dtype);
  Tensor dk = heads_like(eager, k, dtype);
  Tensor dv = heads_like(eager, k.with(3, grads[0].shape()[3]), dtype);
  Tensor product = heads_like(eager, grads[0].shape(), dtype);
  const Shape rows{q[0], q[2], q[1]};
  Tensor sums = eager.empty(rows, DType::kFp32, TensorRole::kWorkspace);
  Tensor delta = eager.empty(rows, DType::kFp32, TensorRole::kWorkspace);
  sums.reset();
  product.reset();
  const std::int64_t blocks = ceil_div(q[2], 64);
  const std::int64_t elements = blocks * (64 * align_up(q[3], 64) + 4);
  Tensor workspace = eager.empty({q[0], q[1], elements}, DType::kFp32, TensorRole::kWorkspace);
  delta.reset();
  workspace.reset();
  return {dq, dk, dv};
}

Tensor efficient(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v) {
  Record record(eager, {&q, &k, &v});
  record.save(k);
  record.save(q);
  record.save(v);
  const Shape& shape = q.shape();
  Tensor output = heads_like(eager, shape.with(3, v.shape()[3]), q.dtype());
  // The log-sum-exp rows are padded to 32. Source: mem_eff_attention/kernel_forward.h, kAlignLSE.
  Tensor log_sum = eager.empty({shape[0], shape[1], align_up(shape[2], 32)}, DType::kFp32);
  if (record.active()) {
    record.save(log_sum);
    record.save(output);
    record.finish(output, efficient_gradients);
  }
  return output;
}

/// ones(S, S).tril() as an additive mask of `dtype`.
Tensor causal_bias(Eager& eager, std::int64_t queries, std::int64_t keys, DType dtype) {
  const Shape square{queries, keys};
  Tensor ones = eager.empty(square, DType::kBool);
  Tensor lower = eager.empty(square, DType::kBool);
  ones.reset();
  Tensor zero = eager.empty({}, dtype);
  Tensor lowest = eager.empty({}, dtype);
  return eager.empty(square, dtype);
}

/// Softmax that turns rows without any key into zeros.
Tensor safe_softmax(Eager& eager, const Tensor& scores) {
  Record record(eager, {&scores});
  Tensor output = eager.empty(scores.shape(), scores.dtype());
  {
    const Tensor masked = eager.empty(scores.shape(), DType::kBool);
    const Tensor rows = eager.empty(scores.shape().with(-1, 1), DType::kBool);
    const Tensor zero = eager.empty({}, scores.dtype());
  }
  if (record.active()) {
    record.save(output);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      Tensor gradient = e.empty(grads[0].shape(), grads[0].dtype());
      const Tensor product = e.empty(grads[0].shape(), grads[0].dtype());
      return {gradient};
    });
  }
  return output;
}

/// The composite implementation.
/// Source: aten/src/ATen/native/transformers/attention.cpp,
/// _scaled_dot_product_attention_math.
Tensor math(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
            const SdpaOptions& options) {
  Tensor mask;
  const bool widens = q.dtype() != DType::kFp32;
  const Tensor q_in = widens ? to(eager, q, DType::kFp32) : q;
  const Tensor k_in = widens ? to(eager, k, DType::kFp32) : k;
  const Tensor v_in = widens ? to(eager, v, DType::kFp32) : v;
  const Tensor query = scale(eager, q_in);
  if (options.causal) {
    mask = causal_bias(eager, q.shape()[2], k.shape()[2], q_in.dtype());
  } else if (options.mask) {
    mask = *options.mask;
  }
  const std::int64_t groups = q.shape()[1] / k.shape()[1];
  const Tensor keys = repeat_heads(eager, k_in, groups);
  const Tensor values = repeat_heads(eager, v_in, groups);
  const Shape& shape = query.shape();
  Tensor weights;
  {
    Tensor scaled = scale(eager, keys);
    Tensor scores =
        batched_matmul(eager, query, scaled, Shape{shape[0], shape[1], shape[2], k.shape()[2]});
    scaled.reset();
    weights = safe_softmax(eager, scores);
  }
  weights = dropout(eager, weights, options.dropout);
  Tensor output = batched_matmul(eager, weights, values, shape.with(3, v.shape()[3]));
  return to(eager, output, q.dtype());
}

}  // namespace

Tensor sdpa(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
            const SdpaOptions& options) {
  const Tensor value = autocast_argument(eager, v);
  const Tensor key = autocast_argument(eager, k);
  const Tensor query = autocast_argument(eager, q);
  const bool half = query.dtype() == DType::kBf16 || query.dtype() == DType::kFp16;
  const bool flash_head = query.shape()[3] <= 256 && query.shape()[3] == value.shape()[3];
  if (half && flash_head && !options.mask) {
    return flash(eager, query, key, value, options.dropout);
  }
  if (query.shape()[1] == key.shape()[1]) {
    return efficient(eager, query, key, value);
  }
  return math(eager, query, key, value, options);
}

}  // namespace headroom::ir::torch
