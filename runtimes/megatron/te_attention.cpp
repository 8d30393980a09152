// Transformer Engine's attention: chooses the backend, and runs its kernels as autograd functions.
#include <utility>
#include <vector>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/te_exchange.h"
#include "runtimes/megatron/te_kernels.h"
#include "runtimes/megatron/te_ring.h"
#include "runtimes/megatron/te_unfused.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// softmax_offset in the form that the kernel takes: fp32 [1, A, 1, 1].
Tensor wide_sinks(const Runner& run, const Tensor& sinks) {
  if (!sinks.defined()) {
    return {};
  }
  const std::int64_t one = 1;
  return torch::to(run.eager(), torch::view(run.eager(), sinks, {one, sinks.elements(), one, one}),
                   DType::kFp32);
}

Tensor fused_attention(const Runner& run, const QueryKeyValue& qkv, const AttentionSizes& sizes) {
  run.process.touch_sequence_lengths();
  const Tensor sinks = wide_sinks(run, qkv.sinks);
  Record record(run.eager(), {&qkv.query, &qkv.key, &qkv.value, &sinks});
  KernelOutput forward = fused_forward(run, sizes, {sizes.sequence, sizes.sequence});
  if (record.active()) {
    const SavedAs parts(run.process.layer_offload(), SavedForm::kWhole);
    record.save(qkv.query);
    record.save(qkv.key);
    record.save(qkv.value);
    record.save(forward.output);
    record.save(run.process.sequence_lengths());
    record.save(forward.statistics);
    record.save(forward.random);
    record.save(sinks);
    record.finish(forward.output, [run, sizes](Eager& eager, Gradients&, Node& node) -> Gradients {
      const torch::Unpacked saved(eager, node);
      const bool sink_gradient = node.wants(3);
      return fused_backward(run, sizes, {sizes.sequence, sizes.sequence},
                            sink_gradient ? node.input_shapes[3] : Shape{});
    });
  }
  return std::move(forward.output);
}

Gradients attention_gradients(const Runner& run, const AttentionSizes& sizes, Node& node) {
  const torch::Unpacked saved(run.eager(), node);
  return flash_backward(run, sizes, {sizes.sequence, sizes.sequence});
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

}  // namespace

Tensor dot_product_attention(const Runner& run, const QueryKeyValue& qkv,
                             const AttentionSizes& sizes) {
  if (run.context.megatron.attention == MegatronAttention::kUnfused) {
    return unfused_attention(run, qkv, sizes);
  }
  if (run.context.grid.context.size > 1) {
    return run.context.megatron.context_exchange == MegatronContext::kAllToAll
               ? exchanged_attention(run, qkv, sizes)
               : ring_attention(run, qkv, sizes);
  }
  return is_flash(run) ? flash_attention(run, qkv, sizes) : fused_attention(run, qkv, sizes);
}

}  // namespace headroom::ir::megatron
