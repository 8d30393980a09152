// Transformer Engine's FlashAttention with the package flash-attn, version 2.
// Source: transformer_engine/pytorch/attention/dot_product_attention/backends.py, FlashAttention;
//         Dao-AILab/flash-attention 2.8, csrc/flash_attn/flash_api.cpp, mha_fwd and mha_bwd.
#include <utility>
#include <vector>

#include "runtimes/megatron/te_attention.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// The queries, rounded up to whole blocks of the backward kernel.
std::int64_t rounded_rows(const Extent& extent) {
  constexpr std::int64_t kRows = 128;
  return ceil_div(extent.queries, kRows) * kRows;
}

/// Elements of the buffer in which the backward kernel accumulates the queries' gradient. A
/// deterministic kernel has one buffer for each group of blocks that run at the same time, because
/// the order of additions must not change.
std::int64_t accumulator_elements(const Runner& run, const AttentionSizes& sizes,
                                  const Extent& extent) {
  const std::int64_t dim = sizes.head_dim <= 128 ? 32 : 64;
  const std::int64_t width = ceil_div(sizes.head_dim, dim) * dim;
  const std::int64_t blocks = sizes.batch * sizes.heads;
  const std::int64_t splits =
      run.context.megatron.deterministic
          ? ceil_div(std::int64_t{run.eager().device().multiprocessors}, blocks)
          : 1;
  return splits * blocks * rounded_rows(extent) * width;
}

Gradients attention_gradients(const Runner& run, const AttentionSizes& sizes, Node& node) {
  const torch::Unpacked saved(run.eager(), node);
  return flash_backward(run, sizes, {sizes.sequence, sizes.sequence});
}

}  // namespace

KernelOutput flash_forward(const Runner& run, const AttentionSizes& sizes, const Extent& extent) {
  Eager& eager = run.eager();
  KernelOutput result;
  result.output =
      eager.empty({sizes.batch * extent.queries, sizes.heads * sizes.head_dim}, run.context.dtype);
  result.statistics = eager.empty({sizes.batch, sizes.heads, extent.queries, 1}, DType::kFp32);
  result.random = eager.empty({2}, DType::kInt64);
  eager.run(kernel_of(run, sizes, extent));
  return result;
}

std::vector<Tensor> flash_backward(const Runner& run, const AttentionSizes& sizes,
                                   const Extent& extent) {
  Eager& eager = run.eager();
  const DType dtype = run.context.dtype;
  const std::int64_t keys = sizes.batch * extent.keys;
  std::vector<Tensor> gradients = {
      eager.empty({sizes.batch * extent.queries, sizes.heads * sizes.head_dim}, dtype),
      eager.empty({keys, sizes.kv_heads * sizes.head_dim}, dtype),
      eager.empty({keys, sizes.kv_heads * sizes.head_dim}, dtype)};
  const Tensor sums = eager.empty({sizes.batch, sizes.heads, rounded_rows(extent)}, DType::kFp32);
  const Tensor accumulator =
      eager.empty({accumulator_elements(run, sizes, extent)}, DType::kFp32, TensorRole::kWorkspace);
  if (sizes.heads != sizes.kv_heads) {
    // Gradients of keys and values for each query head, which are then summed over each group.
    const torch::Shape all{keys, sizes.heads * sizes.head_dim};
    const Tensor key = eager.empty(all, dtype);
    const Tensor value = eager.empty(all, dtype);
  }
  AttentionShape kernel = kernel_of(run, sizes, extent);
  kernel.backward = true;
  eager.run(kernel);
  return gradients;
}

QueryKeyValue by_sequence(const Runner& run, const QueryKeyValue& qkv,
                          const AttentionSizes& sizes) {
  if (sizes.batch == 1 && sizes.layout != QkvLayout::kPacked) {
    return qkv;
  }
  return {.query = contiguous_copy(run, qkv.query),
          .key = contiguous_copy(run, qkv.key),
          .value = contiguous_copy(run, qkv.value)};
}

Tensor flash_attention(const Runner& run, const QueryKeyValue& qkv, const AttentionSizes& sizes) {
  run.process.touch_sequence_lengths();
  const QueryKeyValue whole = by_sequence(run, qkv, sizes);
  Record record(run.eager(), {&whole.query, &whole.key, &whole.value});
  KernelOutput forward = flash_forward(run, sizes, {sizes.sequence, sizes.sequence});
  if (record.active()) {
    record.save(whole.query);
    record.save(whole.key);
    record.save(whole.value);
    record.save(forward.output);
    record.save(forward.statistics);
    record.save(forward.random);
    record.finish(forward.output, [run, sizes](Eager&, Gradients&, Node& node) -> Gradients {
      return attention_gradients(run, sizes, node);
    });
  }
  return sizes.batch > 1 ? contiguous_copy(run, forward.output) : std::move(forward.output);
}

}  // namespace headroom::ir::megatron
