#include "runtimes/megatron/te_kernels.h"

#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

/// The forward kernel of a call, as a work item.
AttentionShape kernel_of(const Runner& run, const AttentionSizes& sizes, const Extent& extent) {
  return {.batch = sizes.batch,
          .heads = sizes.heads,
          .kv_heads = sizes.kv_heads,
          .queries = extent.queries,
          .keys = extent.keys,
          .head_dim = sizes.head_dim,
          .value_dim = sizes.value_dim,
          .window = sizes.window,
          .dtype = run.context.dtype,
          .causal = extent.causal,
          .kernel = is_flash(run) ? AttentionKernel::kFlash2 : AttentionKernel::kNative};
}

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

}  // namespace

bool is_flash(const Runner& run) {
  return run.context.megatron.attention == MegatronAttention::kFlash;
}

KernelOutput fused_forward(const Runner& run, const AttentionSizes& sizes, const Extent& extent) {
  Eager& eager = run.eager();
  const std::int64_t queries = extent.queries;
  KernelOutput result;
  result.output =
      eager.empty({sizes.batch * queries, sizes.heads * sizes.value_dim}, run.context.dtype);
  result.random = eager.empty({2}, DType::kInt64);
  const Tensor workspace = eager.empty({1}, DType::kUInt8, TensorRole::kWorkspace);
  result.statistics = eager.empty({sizes.batch, sizes.heads, queries, 1}, DType::kFp32);
  eager.run(kernel_of(run, sizes, extent));
  return result;
}

// The kernel's workspace is assumed to be an fp32 sum of the queries' gradient and a row sum; what
// cuDNN requests has not been measured.
std::vector<Tensor> fused_backward(const Runner& run, const AttentionSizes& sizes,
                                   const Extent& extent, const Shape& sinks) {
  Eager& eager = run.eager();
  const DType dtype = run.context.dtype;
  const std::int64_t query = sizes.heads * sizes.head_dim;
  const std::int64_t key = sizes.kv_heads * sizes.head_dim;
  const std::int64_t value = sizes.kv_heads * sizes.value_dim;
  const std::int64_t rows = sizes.batch * extent.queries;
  const std::int64_t key_rows = sizes.batch * extent.keys;
  std::vector<Tensor> gradients;
  if (sizes.layout == QkvLayout::kPacked) {
    const Tensor whole = eager.empty({rows, query + key + value}, dtype);
    for (const std::int64_t width : {query, key, value}) {
      gradients.push_back(eager.alias(whole, {rows, width}, true));
      gradients.back()->layout = torch::Layout::kSwapped;  // Not contiguous.
    }
  } else {
    gradients = {eager.empty({rows, query}, dtype), eager.empty({key_rows, key}, dtype),
                 eager.empty({key_rows, value}, dtype)};
  }
  const std::int64_t sums = 4 * sizes.batch * sizes.heads * extent.queries * (sizes.head_dim + 1);
  const Tensor workspace = eager.empty({sums}, DType::kUInt8, TensorRole::kWorkspace);
  if (sinks.rank() > 0) {
    gradients.push_back(eager.empty(sinks, DType::kFp32));
  }
  AttentionShape kernel = kernel_of(run, sizes, extent);
  kernel.backward = true;
  eager.run(kernel);
  return gradients;
}

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

KernelOutput kernel_forward(const Runner& run, const AttentionSizes& sizes, const Extent& extent) {
  return is_flash(run) ? flash_forward(run, sizes, extent) : fused_forward(run, sizes, extent);
}

std::vector<Tensor> kernel_backward(const Runner& run, const AttentionSizes& sizes,
                                    const Extent& extent) {
  return is_flash(run) ? flash_backward(run, sizes, extent) : fused_backward(run, sizes, extent);
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

}  // namespace headroom::ir::megatron
