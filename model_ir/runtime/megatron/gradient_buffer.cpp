#include "model_ir/runtime/megatron/gradient_buffer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "model_ir/runtime/torch/stream_scope.h"

namespace headroom::ir::megatron {
namespace {

using torch::Tensor;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

/// Elements after which a bucket is closed: 1 M for each rank, at least 40 M, where reductions
/// overlap with backward; else everything is one bucket.
/// Source: megatron/core/distributed/distributed_data_parallel.py, __init__.
std::int64_t bucket_elements(const Context& context, bool first_chunk) {
  if (!context.megatron.overlap_grad_reduce || !context.mesh.first_stage() || !first_chunk) {
    return std::numeric_limits<std::int64_t>::max();
  }
  constexpr std::int64_t kLeast = 40'000'000;
  constexpr std::int64_t kPerRank = 1'000'000;
  return std::max(kLeast, kPerRank * context.mesh.data.size * context.mesh.context.size);
}

/// Lays parameters out from the last to the first.
class LayoutBuilder {
 public:
  LayoutBuilder(GradientBuffer& buffer, bool padded, std::int64_t limit)
      : buffer_(buffer), padded_(padded), limit_(limit) {}

  void add(const Parameter& parameter) {
    if (padded_) {
      at_ = round_up(at_, 64);
    }
    const bool alone = parameter.shared_embedding && padded_;
    if (alone && open()) {
      close();
    }
    const std::int64_t end = at_ + parameter.tensor.elements();
    buffer_.slots.push_back({&parameter, at_, end});
    at_ = end;
    if (alone || at_ - begin_ >= limit_) {
      close();
    }
  }
  std::int64_t finish() {
    if (open()) {
      close();
    }
    return at_;
  }

 private:
  [[nodiscard]] bool open() const { return first_ < buffer_.slots.size(); }
  void close() {
    if (padded_) {
      at_ = round_up(at_, std::lcm(buffer_.ranks.size, std::int64_t{128}));
    }
    buffer_.buckets.push_back({begin_, at_, first_, buffer_.slots.size()});
    begin_ = at_;
    first_ = buffer_.slots.size();
  }

  GradientBuffer& buffer_;
  bool padded_;
  std::int64_t limit_;
  std::int64_t at_ = 0;
  std::int64_t begin_ = 0;
  std::size_t first_ = 0;
};

/// param.data becomes a view of the buffer; what it lived in before goes.
void adopt_parameters(const Context& context, const GradientBuffer& buffer) {
  for (const Slot& slot : buffer.slots) {
    context.eager.move_storage(slot.parameter->tensor, buffer.parameters);
  }
}

GradientBuffer make_buffer(const Context& context, const Chunk& chunk, bool expert,
                           std::int64_t limit) {
  GradientBuffer buffer;
  buffer.chunk = &chunk;
  buffer.expert = expert;
  buffer.ranks = expert ? context.mesh.expert_data_instance() : context.mesh.data_context();
  LayoutBuilder layout(buffer, context.megatron.distributed_optimizer, limit);
  for (auto parameter = chunk.parameters.rbegin(); parameter != chunk.parameters.rend();
       ++parameter) {
    if ((parameter->held == Held::kExpert) == expert) {
      layout.add(*parameter);
    }
  }
  const std::int64_t elements = layout.finish();
  if (elements == 0) {
    return buffer;
  }
  if (context.megatron.distributed_optimizer) {
    buffer.parameters = context.eager.empty({elements}, context.dtype, TensorRole::kParameter);
  }
  buffer.gradients = context.eager.empty({elements}, context.grad_dtype, TensorRole::kGradient);
  if (buffer.parameters.defined()) {
    adopt_parameters(context, buffer);
  }
  return buffer;
}

}  // namespace

std::vector<GradientBuffer> make_buffers(const Context& context, const Chunk& chunk,
                                         bool first_chunk) {
  context.eager.set_site("gradient_buffer", -1);
  // The training script wraps the model on a stream of its own, whose pool serves the buffers.
  const torch::StreamScope stream(context.eager, kWrappingStream);
  const std::int64_t limit = bucket_elements(context, first_chunk);
  std::vector<GradientBuffer> buffers;
  for (const bool expert : {false, true}) {
    GradientBuffer buffer = make_buffer(context, chunk, expert, limit);
    if (!buffer.slots.empty()) {
      buffers.push_back(std::move(buffer));
    }
  }
  return buffers;
}

}  // namespace headroom::ir::megatron
