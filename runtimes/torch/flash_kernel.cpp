// Source: Dao-AILab/flash-attention 2.8.3 csrc/flash_attn/flash_api.cpp; PyTorch 2.11's copy of it,
// aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp.
#include "runtimes/torch/flash_kernel.h"

#include <algorithm>
#include <cmath>

#include "runtimes/torch/launch.h"

namespace headroom::ir::torch {
namespace {

/// Whether a tensor [B, A, S, D], viewed as [B, S, A, D], is contiguous.
bool rows_first(const Tensor& heads) {
  const Shape& shape = heads.shape();
  return heads->layout == Layout::kSwapped || shape[1] == 1 || shape[2] == 1;
}

/// Number of parts into which the keys are split if batch, heads and rows are too few for the
/// device.
/// Source: flash_attn/flash_api.cpp, set_params_splitkv and num_splits_heuristic.
std::int64_t flash_splits(const Eager& eager, const Shape& q, std::int64_t keys) {
  constexpr std::int64_t kMaxSplits = 128;
  const std::int64_t processors = 2 * eager.device().multiprocessors;
  const std::int64_t columns = q[3] <= 64 ? 256 : (q[3] <= 128 ? 128 : 64);
  const std::int64_t blocks = ceil_div(keys, columns);
  const std::int64_t rows = q[0] * q[1] * ceil_div(q[2], 64);
  if (static_cast<float>(rows) >= 0.8F * static_cast<float>(processors)) {
    return 1;
  }
  const std::int64_t most = std::min({kMaxSplits, processors, blocks});
  const auto eligible = [&](std::int64_t splits) {
    return splits == 1 || ceil_div(blocks, splits) != ceil_div(blocks, splits - 1);
  };
  const auto efficiency = [&](std::int64_t splits) {
    const float waves = static_cast<float>(rows * splits) / static_cast<float>(processors);
    return waves / std::ceil(waves);
  };
  float best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) {
    best = eligible(splits) ? std::max(best, efficiency(splits)) : best;
  }
  for (std::int64_t splits = 1; splits <= most; ++splits) {
    if (eligible(splits) && efficiency(splits) >= 0.85F * best) {
      return splits;
    }
  }
  return 1;
}

}  // namespace

Tensor heads_like(Eager& eager, const Shape& shape, DType dtype, Layout layout) {
  Tensor result = eager.empty(shape, dtype);
  result->layout = layout;
  return result;
}

FlashOutputs run_flash(Eager& eager, const Tensor& q, const AttentionShape& kernel, double dropout,
                       FlashMaker maker) {
  const Shape& shape = q.shape();
  FlashOutputs outputs;
  outputs.output = heads_like(eager, shape, q.dtype(), q->layout);
  outputs.log_sum = eager.empty({shape[0], shape[1], shape[2]}, DType::kFp32);
  Tensor split_sum;
  Tensor split_output;
  const std::int64_t splits = dropout > 0 ? 1 : flash_splits(eager, shape, kernel.keys);
  if (splits > 1) {
    const std::int64_t width = align_up(shape[3], shape[3] <= 128 ? 32 : 64);
    const Shape rows{splits, shape[0], shape[1], shape[2]};
    split_sum = eager.empty(rows, DType::kFp32, TensorRole::kWorkspace);
    split_output = eager.empty({splits, shape[0], shape[1], shape[2], width}, DType::kFp32,
                               TensorRole::kWorkspace);
  }
  outputs.seed = eager.empty({2}, DType::kInt64);
  if (maker == FlashMaker::kTorch) {
    outputs.offset = eager.empty({1}, DType::kInt64);
  }
  eager.run(kernel);
  if (splits > 1) {
    launch(eager, {&split_output, &split_sum, &outputs.output});  // Combines the splits.
  }
  split_sum.reset();
  split_output.reset();
  if (dropout > 0 && maker == FlashMaker::kTorch) {
    const Tensor state = eager.empty({2}, DType::kInt64);
  }
  return outputs;
}

AttentionShape flash_shape(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  return {.batch = q.shape()[0],
          .heads = q.shape()[1],
          .kv_heads = k.shape()[1],
          .queries = q.shape()[2],
          .keys = k.shape()[2],
          .head_dim = q.shape()[3],
          .value_dim = v.shape()[3],
          .dtype = q.dtype(),
          .causal = causal};
}

FlashGradients empty_gradients(Eager& eager, const FlashInputs& inputs) {
  const DType dtype = inputs.query.dtype();
  const Shape& k = inputs.key.shape();
  FlashGradients made;
  made.query = heads_like(eager, inputs.query.shape(), dtype, inputs.query->layout);
  made.key = heads_like(eager, k, dtype, inputs.key->layout);
  made.value = heads_like(eager, k, dtype, inputs.value->layout);
  return made;
}

void run_flash_backward(Eager& eager, const FlashInputs& inputs, const FlashGradients& made,
                        AttentionShape kernel) {
  const Shape& q = inputs.query.shape();
  const Shape& k = inputs.key.shape();
  const DType dtype = inputs.gradient.dtype();
  const std::int64_t rows = align_up(q[2], 128);
  const std::int64_t width = align_up(q[3], q[3] <= 128 ? 32 : 64);
  Tensor softmax_sum = eager.empty({q[0], q[1], rows}, DType::kFp32, TensorRole::kWorkspace);
  Tensor dq_sum = eager.empty({q[0], rows, q[1], width}, DType::kFp32, TensorRole::kWorkspace);
  launch_kernels(eager,
                 bytes_of(inputs.gradient) + bytes_of(inputs.output) + bytes_of(softmax_sum));
  kernel.backward = true;
  eager.run(kernel);
  launch_kernels(eager, bytes_of(dq_sum) + bytes_of(made.query));  // Cast to the queries' type.
  if (q[1] != k[1]) {
    Tensor dk_wide = heads_like(eager, k.with(1, q[1]), dtype);
    Tensor dv_wide = heads_like(eager, k.with(1, q[1]), dtype);
    launch(eager, {&dk_wide, &made.key});  // Summed over the heads of each group.
    launch(eager, {&dv_wide, &made.value});
    dv_wide.reset();
    dk_wide.reset();
  }
  dq_sum.reset();
  softmax_sum.reset();
}

FlashGradients flash_backward(Eager& eager, const FlashInputs& inputs, AttentionShape kernel) {
  const Shape& q = inputs.query.shape();
  const DType dtype = inputs.gradient.dtype();
  Tensor grad_rows = rows_first(inputs.gradient) ? Tensor{} : eager.empty(q, dtype);
  Tensor output_rows = rows_first(inputs.output) ? Tensor{} : eager.empty(q, dtype);
  const FlashGradients made = empty_gradients(eager, inputs);
  launch(eager, {&grad_rows, &grad_rows});
  launch(eager, {&output_rows, &output_rows});
  run_flash_backward(eager, inputs, made, kernel);
  return made;
}

}  // namespace headroom::ir::torch
