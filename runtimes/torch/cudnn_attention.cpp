#include "runtimes/torch/cudnn_attention.h"

#include <utility>

#include "runtimes/torch/flash_kernel.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/sdpa_mask.h"

namespace headroom::ir::torch {
namespace {

constexpr std::int64_t kPlanWorkspace = 256;  ///< Bytes that every plan needs.

Tensor like(Eager& eager, const Tensor& heads, const Shape& shape) {
  Tensor made = eager.empty(shape, heads.dtype());
  made->layout = heads->layout;
  return made;
}

Tensor workspace_of(Eager& eager, std::int64_t bytes) {
  return eager.empty({bytes}, DType::kUInt8, TensorRole::kWorkspace);
}

/// Bytes of the backward workspace.
std::int64_t backward_workspace(const AttentionShape& shape) {
  const std::int64_t rows = shape.batch * shape.heads * shape.queries;
  const std::int64_t columns = shape.batch * shape.heads * shape.keys;
  const bool shared = shape.heads != shape.kv_heads;
  return 4 * rows * (shape.head_dim + 1) +
         (shared ? 2 * columns * (shape.head_dim + shape.value_dim) : 0) + kPlanWorkspace;
}

Gradients backward(Eager& eager, Gradients& grads, Node& node, AttentionShape kernel) {
  const Unpacked saved(eager, node);  // Key, query, value, log-sum-exp, output, ...
  const Tensor& key = saved[0];
  const Tensor& query = saved[1];
  const Tensor& value = saved[2];
  const Tensor& output = saved[4];
  Tensor matching;                          // permute_to_matching_layout
  if (grads[0]->layout != query->layout) {  // The output gets the layout of the queries.
    matching = like(eager, query, output.shape());
    launch(eager, {&grads[0], &matching});
  }
  Tensor dq = like(eager, query, query.shape());
  Tensor dk = like(eager, key, key.shape());
  Tensor dv = like(eager, value, value.shape());
  kernel.backward = true;
  {
    const Tensor workspace = workspace_of(eager, backward_workspace(kernel));
    launch(eager, {&grads[0], &output});  // Row sums of both, multiplied.
    eager.run(kernel);
    launch(eager, {&dq, &dq, &dq});  // From fp32.
  }
  return {std::move(dq), std::move(dk), std::move(dv)};
}

}  // namespace

bool prefers_cudnn(const Eager& eager, const Tensor& query, const Tensor& key, const Tensor& value,
                   const SdpaOptions& options) {
  const int major = eager.device().compute_major;
  const bool hopper = major == 9;
  if (!options.cudnn || eager.device().rocm || (!hopper && major != 10) ||
      query.dtype() == DType::kFp32 || (options.mask && options.mask->requires_grad())) {
    return false;
  }
  if ((query.shape()[1] != key.shape()[1] && options.broadcast) || key.shape()[2] == 1) {
    return false;
  }
  const std::int64_t d = query.shape()[3];
  const std::int64_t v = value.shape()[3];
  const std::int64_t widest = hopper ? 256 : (d == 192 && v == 128 ? 192 : 128);
  const bool side_by_side = !options.mask || (*options.mask)->layout != Layout::kSwapped;
  return side_by_side && d <= widest && v <= widest && d % 8 == 0 && v % 8 == 0;
}

Tensor cudnn_attention(Eager& eager, const Tensor& query, const Tensor& key, const Tensor& value,
                       const SdpaOptions& options) {
  Tensor mask;
  if (options.mask) {
    mask = additive(eager, *options.mask, query.shape()[0], query.dtype());
  }
  AttentionShape kernel = flash_shape(query, key, value, options.causal && !mask.defined());
  kernel.kernel = AttentionKernel::kNative;
  Record record(eager, {&query, &key, &value});
  record.save(key);
  record.save(query);
  record.save(value);
  const Shape& shape = query.shape();
  const Tensor seed = eager.empty({1}, DType::kInt64);
  const Tensor offset = eager.empty({1}, DType::kInt64);
  Tensor output = like(eager, query, shape.with(3, value.shape()[3]));
  Tensor log_sum;
  if (record.active()) {
    log_sum = eager.empty({shape[0], shape[1], shape[2]}, DType::kFp32);
  }
  {
    const Tensor workspace = workspace_of(eager, kPlanWorkspace);
    eager.run(kernel);
  }
  if (record.active()) {
    record.save(log_sum);
    record.save_output(output);
    record.save(offset);
    record.save(seed);
    record.save(mask);  // The mask comes last, because it may be undefined and then takes no slot.
    record.finish(output, [kernel](Eager& e, Gradients& grads, Node& node) -> Gradients {
      return backward(e, grads, node, kernel);
    });
  }
  return output;
}

}  // namespace headroom::ir::torch
