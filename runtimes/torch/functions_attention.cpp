#include <algorithm>
#include <utility>

#include "runtimes/torch/cudnn_attention.h"
#include "runtimes/torch/flash_kernel.h"
#include "runtimes/torch/flash_package.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/sdpa_mask.h"

namespace headroom::ir::torch {
namespace {

Gradients flash_gradients(Eager& eager, Gradients& grads, Node& node,
                          const AttentionShape& kernel) {
  const Unpacked saved(eager, node);  // Key, query, value, log-sum-exp, output.
  const FlashInputs inputs{.gradient = grads[0],
                           .query = saved[1],
                           .key = saved[0],
                           .value = saved[2],
                           .output = saved[4]};
  FlashGradients made = flash_backward(eager, inputs, kernel);
  return {std::move(made.query), std::move(made.key), std::move(made.value)};
}

/// `dropout`: the probability, for which the kernel's random state is saved.
Tensor flash(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
             const AttentionShape& kernel, double dropout, FlashOutputs& outputs) {
  Record record(eager, {&q, &k, &v});
  record.save(k);
  record.save(q);
  record.save(v);
  if (!outputs.output.defined()) {
    outputs = run_flash(eager, q, kernel, dropout, FlashMaker::kTorch);
  }
  Tensor output = outputs.output;
  if (record.active()) {
    record.save(outputs.log_sum);
    record.save_output(output);
    record.save(outputs.seed);
    record.save(outputs.offset);
    record.finish(output, [kernel](Eager& e, Gradients& grads, Node& node) -> Gradients {
      return flash_gradients(e, grads, node, kernel);
    });
  }
  return output;
}

/// Heads padded with zeros to the size that the kernel supports, contiguous by heads.
/// Source: aten/src/ATen/native/transformers/attention.cpp, pad_last_dim.
Tensor pad_heads(Eager& eager, const Tensor& heads) {
  const std::int64_t dim = align_up(heads.shape()[3], kFlashAlignment);
  return pad_rows(eager, heads, dim, Layout::kContiguous);
}

/// Flash attention of heads of any size. The kernel supports multiples of 8; the padding is cut off
/// afterwards. The work counts the size without padding.
/// Source: attention.cpp, scaled_dot_product_attention, post_process_flash_output.
Tensor padded_flash(Eager& eager, const Tensor& query, const Tensor& key, const Tensor& value,
                    const SdpaOptions& options) {
  const AttentionShape kernel = flash_shape(query, key, value, options.causal);
  const Tensor q = pad_heads(eager, query);
  const Tensor k = pad_heads(eager, key);
  const Tensor v = pad_heads(eager, value);
  FlashOutputs outputs;
  Tensor output = flash(eager, q, k, v, kernel, options.dropout, outputs);
  outputs = {};
  return cut_rows(eager, output, value.shape()[3]);  // Whoever merges the heads copies them.
}

/// Floats of the backward kernel's workspace for one head of one sequence. 16-bit kernels sum the
/// query gradient in fp32; above 128 dims also those of keys and values, in at most 200 splits over
/// all heads. Each tile of the query gradient has 16 bytes of locks. Source:
/// mem_eff_attention/kernel_backward.h, workspace_elements_gk, _gv, _gq, GradQTempStorage; block
/// sizes of generate_kernels.py, BwdKernel; attention_backward.cu, num_splits_key.
std::int64_t efficient_workspace(const Shape& q, const Shape& v, DType dtype) {
  constexpr std::int64_t kBlockKeys = 64;
  constexpr std::int64_t kLockFloats = 4;
  const std::int64_t dim = q[3];
  const bool half = dtype != DType::kFp32;
  const std::int64_t block_queries = dim <= 64 ? 64 : 128;
  const std::int64_t tile_columns = half && dim > 64 && dim <= 128 ? 128 : 64;
  const std::int64_t tiles = ceil_div(q[2], block_queries) * ceil_div(dim, tile_columns);
  std::int64_t floats = tiles * (block_queries * tile_columns + kLockFloats);
  if (half && dim > 128) {
    const std::int64_t splits =
        std::max<std::int64_t>(1, std::min(ceil_div(v[2], kBlockKeys), 200 / (q[0] * q[1])));
    floats += splits * kBlockKeys * (align_up(dim, block_queries) + align_up(v[3], block_queries));
  }
  return floats;
}

/// Backward of memory-efficient attention: the three gradients, the gradient of a learned mask, the
/// row sums of grad * output (16-bit kernels compute them internally) and the workspace. Source:
/// aten/src/ATen/native/transformers/cuda/attention_backward.cu, _efficient_attention_backward;
/// kernel_backward.h, kKernelComputesDelta.
Gradients efficient_gradients(Eager& eager, Gradients& grads, Node& node, AttentionShape kernel) {
  const Unpacked saved(eager, node);
  const Shape q = node.input_shapes[0];
  const Shape k = node.input_shapes[1];
  const DType dtype = grads[0].dtype();
  Tensor dq = heads_like(eager, q, dtype);
  Tensor dk = heads_like(eager, k, dtype);
  Tensor dv = heads_like(eager, k.with(3, grads[0].shape()[3]), dtype);
  Tensor mask_gradient;
  if (node.wants(3)) {  // Rows are padded to a multiple of 16; only the first columns are visible.
    const Shape& mask = node.input_shapes[3];
    const Tensor wide = eager.empty(mask.with(-1, align_up(mask[-1], 16)), dtype);
    mask_gradient = eager.alias(wide, mask, false);
  }
  const Shape rows{q[0], q[2], q[1]};
  Tensor delta;
  if (dtype == DType::kFp32) {
    Tensor product = heads_like(eager, grads[0].shape(), dtype);
    Tensor sums = eager.empty(rows, DType::kFp32, TensorRole::kWorkspace);
    delta = eager.empty(rows, DType::kFp32, TensorRole::kWorkspace);
    launch(eager, {&grads[0], &saved[node.saved.size() - 1], &product});
    launch(eager, {&product, &sums});
    launch_copy(eager, sums, delta, CopyOrder::kOther);
    sums.reset();
    product.reset();
  } else {
    delta = eager.empty(rows, DType::kFp32, TensorRole::kWorkspace);
  }
  const Shape floats{q[0], q[1], efficient_workspace(q, dv.shape(), dtype)};
  Tensor workspace = eager.empty(floats, DType::kFp32, TensorRole::kWorkspace);
  launch_fill(eager, workspace);
  kernel.backward = true;
  eager.run(kernel);
  delta.reset();
  workspace.reset();
  return {dq, dk, dv, mask_gradient};
}

/// `mask` may be undefined.
Tensor efficient(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& mask, bool causal) {
  AttentionShape kernel = flash_shape(q, k, v, causal && !mask.defined());
  kernel.kernel = AttentionKernel::kEfficient;
  Record record(eager, {&q, &k, &v, &mask});
  record.save(mask);
  record.save(k);
  record.save(q);
  record.save(v);
  const Shape& shape = q.shape();
  Tensor output = heads_like(eager, shape.with(3, v.shape()[3]), q.dtype());
  output->layout = Layout::kSwapped;  // In memory it is [B, S, A, D], whatever the queries are.
  // The log-sum-exp rows are padded to 32. Source: mem_eff_attention/kernel_forward.h, kAlignLSE.
  // Saved only for backward.
  Tensor log_sum;
  if (record.active()) {
    log_sum = eager.empty({shape[0], shape[1], align_up(shape[2], 32)}, DType::kFp32);
  }
  // Above 128 dims, the output does not fit into registers: kNeedsOutputAccumulatorBuffer.
  if (q.dtype() != DType::kFp32 && std::max(shape[3], v.shape()[3]) > 128) {
    const Tensor sum = eager.empty(output.shape(), DType::kFp32, TensorRole::kWorkspace);
  }
  eager.run(kernel);
  if (record.active()) {
    record.save(log_sum);
    record.save_output(output);
    record.finish(output, [kernel](Eager& e, Gradients& grads, Node& node) -> Gradients {
      return efficient_gradients(e, grads, node, kernel);
    });
  }
  return output;
}

/// Softmax that turns rows without any key into zeros.
Tensor safe_softmax(Eager& eager, const Tensor& scores) {
  Record record(eager, {&scores});
  Tensor output = computed(eager, scores.shape(), scores.dtype(), {&scores});
  {
    const Tensor masked = computed(eager, scores.shape(), DType::kBool, {&scores});
    const Tensor rows = computed(eager, scores.shape().with(-1, 1), DType::kBool, {&masked});
    const Tensor zero = filled(eager, {}, scores.dtype());
    launch(eager, {&rows, &output, &output});
  }
  if (record.active()) {
    record.save_output(output);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      Tensor gradient = e.empty(grads[0].shape(), grads[0].dtype());
      const Tensor product = computed(e, grads[0].shape(), grads[0].dtype(), {&grads[0], &saved});
      launch(e, {&product, &saved, &gradient});
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
  const DType dtype = q.dtype();
  Tensor mask;
  if (options.mask) {
    mask = additive(eager, *options.mask, q.shape()[0], dtype);
  }
  const bool widens = dtype != DType::kFp32;
  const Tensor q_in = widens ? to(eager, q, DType::kFp32) : q;
  const Tensor k_in = widens ? to(eager, k, DType::kFp32) : k;
  const Tensor v_in = widens ? to(eager, v, DType::kFp32) : v;
  const Tensor query = scale(eager, q_in);
  if (options.causal) {
    mask = causal_bias(eager, q.shape()[2], k.shape()[2], q_in.dtype());
  }
  const std::int64_t groups = q.shape()[1] / k.shape()[1];
  const auto repeated = [&](const Tensor& heads) {  // repeat_interleave always copies.
    if (options.broadcast) {
      return heads;
    }
    const Tensor seen = repeat_heads(eager, heads, groups);
    return seen->layout == Layout::kRepeated ? clone(eager, seen) : seen;
  };
  const Tensor keys = repeated(k_in);
  const Tensor values = repeated(v_in);
  const Shape& shape = query.shape();
  Tensor weights;
  {
    Tensor scaled = scale(eager, keys);
    Tensor scores =
        batched_matmul(eager, query, scaled, Shape{shape[0], shape[1], shape[2], k.shape()[2]});
    scaled.reset();
    if (mask.requires_grad()) {  // attn.add_ of a constant records nothing.
      scores = add_in_place(eager, scores, mask);
    } else if (mask.defined()) {
      launch(eager, {&scores, &mask, &scores});
    }
    weights = safe_softmax(eager, scores);
  }
  weights = dropout(eager, weights, options.dropout);
  // The weights are returned in the query's type as well.
  const Tensor returned = widens ? to(eager, weights, dtype) : Tensor{};
  Tensor output = batched_matmul(eager, weights, values, shape.with(3, v.shape()[3]));
  return to(eager, output, dtype);
}

/// Whether memory-efficient attention supports this head size: rows must be multiples of 16 bytes
/// if tensor cores are used, for 16-bit types from compute capability 7.0 on, for fp32 from 8.0 on.
/// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, minimum_gemm_alignment,
/// check_head_dim_size_mem_efficient.
bool takes_rows(const Eager& eager, const Tensor& heads) {
  const bool half = heads.dtype() != DType::kFp32;
  const bool tensor_cores = eager.device().compute_major >= (half ? 7 : 8);
  return !tensor_cores || heads.shape()[3] % (half ? 8 : 4) == 0;
}

Tensor dispatch(Eager& eager, const Tensor& query, const Tensor& key, const Tensor& value,
                const SdpaOptions& options) {
  if (prefers_cudnn(eager, query, key, value, options)) {
    return cudnn_attention(eager, query, key, value, options);
  }
  const bool half = query.dtype() == DType::kBf16 || query.dtype() == DType::kFp16;
  // Flash attention and fused kernels for bf16 start with compute capability 8.0.
  // Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp.
  const bool ampere = eager.device().compute_major >= 8;
  const bool flash_head = query.shape()[3] <= 256 && query.shape()[3] == value.shape()[3];
  const bool same_heads = query.shape()[1] == key.shape()[1];
  if (half && ampere && flash_head && !options.mask && (same_heads || !options.broadcast)) {
    return padded_flash(eager, query, key, value, options);
  }
  // Fused kernels need the elements of a row to be contiguous:
  // check_last_dim_stride_equals_1_dense.
  const bool strided = options.mask && (*options.mask)->layout == Layout::kSwapped;
  const bool aligned_rows = takes_rows(eager, query) && takes_rows(eager, value);
  if (!same_heads || strided || !aligned_rows || (query.dtype() == DType::kBf16 && !ampere)) {
    return math(eager, query, key, value, options);
  }
  Tensor mask;
  if (options.mask) {
    mask = aligned(eager, additive(eager, *options.mask, query.shape()[0], query.dtype()));
    mask = expanded(eager, mask, query.shape()[0]);
  }
  return efficient(eager, query, key, value, mask, options.causal);
}

}  // namespace

Tensor flash_attention(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
                       FlashOutputs& outputs) {
  return flash(eager, q, k, v, flash_shape(q, k, v, SdpaOptions{}.causal), 0, outputs);
}

Tensor sdpa(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
            const SdpaOptions& options) {
  SdpaOptions cast = options;
  if (options.mask && options.mask->dtype() != DType::kBool) {
    cast.mask = autocast_argument(eager, *options.mask);
  }
  const Tensor value = autocast_argument(eager, v);
  const Tensor key = autocast_argument(eager, k);
  const Tensor query = autocast_argument(eager, q);
  const std::optional<DType> autocast = eager.exchange_autocast(std::nullopt);
  Tensor output = dispatch(eager, query, key, value, cast);
  eager.exchange_autocast(autocast);
  return output;
}

}  // namespace headroom::ir::torch
