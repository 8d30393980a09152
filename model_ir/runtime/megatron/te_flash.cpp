// Transformer Engine's FlashAttention on the package flash-attn, version 2.
// Source: transformer_engine/pytorch/attention/dot_product_attention/backends.py, FlashAttention;
//         Dao-AILab/flash-attention 2.8, csrc/flash_attn/flash_api.cpp, mha_fwd and mha_bwd.
#include <vector>

#include "model_ir/runtime/megatron/te_attention.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// What the backward kernel adds the queries' gradient up in: once for each group of blocks that
/// runs at a time where the order of additions must not change.
std::int64_t accumulator_elements(const Runner& run, const AttentionSizes& sizes) {
  constexpr std::int64_t kRows = 128;
  const std::int64_t dim = sizes.head_dim <= 128 ? 32 : 64;
  const std::int64_t rows = ceil_div(sizes.sequence, kRows) * kRows;
  const std::int64_t width = ceil_div(sizes.head_dim, dim) * dim;
  const std::int64_t blocks = sizes.batch * sizes.heads;
  const std::int64_t splits =
      run.context.megatron.deterministic
          ? ceil_div(std::int64_t{run.eager().device().multiprocessors}, blocks)
          : 1;
  return splits * blocks * rows * width;
}

Gradients flash_backward(const Runner& run, const AttentionSizes& sizes, Node& node) {
  constexpr std::int64_t kRows = 128;
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  Gradients result;
  for (const torch::Shape& shape : node.input_shapes) {
    result.push_back(eager.empty(shape, run.context.dtype));
  }
  const std::int64_t rows = ceil_div(sizes.sequence, kRows) * kRows;
  const Tensor sums = eager.empty({sizes.batch, sizes.heads, rows}, DType::kFp32);
  const Tensor accumulator =
      eager.empty({accumulator_elements(run, sizes)}, DType::kFp32, TensorRole::kWorkspace);
  if (sizes.heads != sizes.kv_heads) {
    // A gradient of keys and of values for each head of the queries, summed into its group's.
    const torch::Shape all{sizes.batch * sizes.sequence, sizes.heads * sizes.head_dim};
    const Tensor keys = eager.empty(all, run.context.dtype);
    const Tensor values = eager.empty(all, run.context.dtype);
  }
  return result;
}

/// The kernel on [B, S, heads, D].
Tensor flash_kernel(const Runner& run, const QueryKeyValue& qkv, const AttentionSizes& sizes) {
  Eager& eager = run.eager();
  Record record(eager, {&qkv.query, &qkv.key, &qkv.value});
  Tensor output = eager.empty(qkv.query.shape(), run.context.dtype);
  const Tensor statistics = eager.empty({sizes.batch, sizes.heads, sizes.sequence}, DType::kFp32);
  const Tensor random = eager.empty({2}, DType::kInt64);
  if (record.active()) {
    record.save(qkv.query);
    record.save(qkv.key);
    record.save(qkv.value);
    record.save(output);
    record.save(statistics);
    record.save(random);
    record.finish(output, [run, sizes](Eager&, Gradients&, Node& node) -> Gradients {
      return flash_backward(run, sizes, node);
    });
  }
  return output;
}

}  // namespace

/// `transpose(0, 1).contiguous()` in and out: a copy of views, and of everything but one sequence.
Tensor flash_attention(const Runner& run, const QueryKeyValue& qkv, const AttentionSizes& sizes) {
  run.process.touch_sequence_lengths();
  QueryKeyValue batched = qkv;
  if (sizes.batch > 1 || sizes.layout == QkvLayout::kPacked) {
    batched.query = contiguous_copy(run, qkv.query);
    batched.key = contiguous_copy(run, qkv.key);
    batched.value = contiguous_copy(run, qkv.value);
  }
  const Tensor output = flash_kernel(run, batched, sizes);
  return sizes.batch > 1 ? contiguous_copy(run, output) : output;
}

}  // namespace headroom::ir::megatron
