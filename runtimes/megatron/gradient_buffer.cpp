#include "runtimes/megatron/gradient_buffer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::megatron {
namespace {

using torch::Tensor;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

/// Elements after which a bucket is closed. If reductions overlap with backward, it is 1 M per rank
/// and at least 40 M. Otherwise everything is one bucket.
/// Source: megatron/core/distributed/distributed_data_parallel.py, __init__.
std::int64_t bucket_elements(const Context& context, bool first_chunk) {
  if (!context.megatron.overlap_grad_reduce || !context.grid.first_stage() || !first_chunk) {
    return std::numeric_limits<std::int64_t>::max();
  }
  constexpr std::int64_t kLeast = 40'000'000;
  constexpr std::int64_t kPerRank = 1'000'000;
  return std::max(kLeast, kPerRank * context.grid.data.size * context.grid.context.size);
}

/// Places parameters in the buffer from the last to the first.
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

/// param.data becomes a view of the buffer; its old memory is freed.
void adopt_parameters(const Runner& run, const GradientBuffer& buffer) {
  for (const Slot& slot : buffer.slots) {
    const Tensor& parameter = slot.parameter->tensor;
    run.eager().move_storage(parameter, buffer.parameters);
    if (slot.parameter->fp8) {
      run.eager().move_storage(run.process.fp8_weight(parameter).tensor.rows, buffer.parameters);
    }
  }
}

/// Parameters of one kind share a buffer.
struct Kind {
  bool expert = false;
  bool fp8 = false;

  bool operator==(const Kind&) const = default;
};
Kind kind_of(const Parameter& parameter) {
  return {.expert = parameter.held == Held::kExpert, .fp8 = parameter.fp8};
}

/// The kinds of a chunk's parameters.
std::vector<Kind> kinds_of(const Chunk& chunk) {
  std::vector<Kind> kinds;
  for (const bool expert : {false, true}) {
    for (const Parameter& parameter : chunk.parameters) {
      const Kind kind = kind_of(parameter);
      if (kind.expert == expert && std::ranges::find(kinds, kind) == kinds.end()) {
        kinds.push_back(kind);
      }
    }
  }
  return kinds;
}

GradientBuffer make_buffer(const Runner& run, const Chunk& chunk, Kind kind, std::int64_t limit) {
  const Context& context = run.context;
  const bool expert = kind.expert;
  GradientBuffer buffer;
  buffer.chunk = &chunk;
  buffer.expert = expert;
  buffer.fp8 = kind.fp8;
  buffer.ranks = expert ? context.grid.expert_data_instance() : context.grid.data_context();
  LayoutBuilder layout(buffer, context.megatron.distributed_optimizer, limit);
  for (auto parameter = chunk.parameters.rbegin(); parameter != chunk.parameters.rend();
       ++parameter) {
    if (kind_of(*parameter) == kind) {
      layout.add(*parameter);
    }
  }
  const std::int64_t elements = layout.finish();
  const bool stay = gathers_into_gradients(context.megatron);
  buffer.gathered = kind.fp8 && !stay ? DType::kFp8 : context.dtype;
  if (context.megatron.distributed_optimizer && !(kind.fp8 && stay)) {
    buffer.parameters = context.eager.empty({elements}, buffer.gathered, TensorRole::kParameter);
  }
  buffer.gradients = context.eager.empty({elements}, context.grad_dtype, TensorRole::kGradient);
  if (buffer.parameters.defined() && !stay) {
    adopt_parameters(run, buffer);
  }
  return buffer;
}

}  // namespace

std::int64_t local_elements(const GradientBuffer& buffer, const Bucket& bucket, const Slot& slot) {
  const std::int64_t share = (bucket.end - bucket.begin) / buffer.ranks.size;
  const std::int64_t begin = bucket.begin + share * buffer.ranks.rank;
  return std::min(slot.end, begin + share) - std::max(slot.begin, begin);
}

std::vector<BucketGroup> group_buckets(std::span<const GradientBuffer> buffers) {
  std::vector<BucketGroup> groups;
  const auto add = [&groups](const GradientBuffer& buffer, bool joins) {
    for (const Bucket& bucket : buffer.buckets) {
      if (!joins) {
        groups.emplace_back();
      }
      groups.back().push_back({&buffer, &bucket});
    }
  };
  const auto together = [](const GradientBuffer& one, const GradientBuffer& other) {
    return one.chunk == other.chunk && one.expert == other.expert;
  };
  for (std::size_t first = 0; first < buffers.size();) {
    std::size_t last = first;
    const GradientBuffer* fp8 = nullptr;
    for (; last < buffers.size() && together(buffers[first], buffers[last]); ++last) {
      fp8 = buffers[last].fp8 ? &buffers[last] : fp8;
    }
    if (fp8 != nullptr) {
      add(*fp8, false);
    }
    for (const GradientBuffer& buffer : buffers.subspan(first, last - first)) {
      if (&buffer != fp8) {
        add(buffer, fp8 != nullptr);
      }
    }
    first = last;
  }
  return groups;
}

bool gathers_into_gradients(const MegatronPlan& megatron) {
  return megatron.fp8_parameters && megatron.fp8 == MegatronFp8::kMxfp8;
}

std::vector<GradientBuffer> make_buffers(const Runner& run, const Chunk& chunk, bool first_chunk) {
  const Context& context = run.context;
  context.eager.set_site("gradient_buffer", -1);
  // The training script wraps the model on a side stream, so the buffers come from that stream's
  // memory pool.
  const torch::StreamScope stream(context.eager, kWrappingStream);
  const std::int64_t limit = bucket_elements(context, first_chunk);
  std::vector<GradientBuffer> buffers;
  for (const Kind& kind : kinds_of(chunk)) {
    buffers.push_back(make_buffer(run, chunk, kind, limit));
  }
  return buffers;
}

}  // namespace headroom::ir::megatron
