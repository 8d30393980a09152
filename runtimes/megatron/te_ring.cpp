// Transformer Engine's ring attention: keys and values travel around a ring of ranks.
#include "runtimes/megatron/te_ring.h"

#include <utility>
#include <vector>

#include "runtimes/megatron/streams.h"
#include "runtimes/megatron/te_exchange.h"
#include "runtimes/megatron/te_kernels.h"
#include "runtimes/torch/collective.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// The part of the attention matrix that a step of the ring computes, by its distance from the
/// diagonal.
enum class Section : std::uint8_t {
  kDiagonal,  ///< All queries and keys, causal.
  kLower,     ///< The first half of keys and values.
  kUpper,     ///< The second half of queries.
};

Section forward_section(std::int64_t step, std::int64_t rank) {
  if (step == 0) {
    return Section::kDiagonal;
  }
  return step <= rank ? Section::kLower : Section::kUpper;
}

Extent extent_of(Section section, std::int64_t sequence) {
  return {.queries = section == Section::kUpper ? sequence / 2 : sequence,
          .keys = section == Section::kLower ? sequence / 2 : sequence,
          .causal = section == Section::kDiagonal};
}

/// Starts to send keys and values to the next rank and to receive those of the previous one. Both
/// overlap the step's kernels. The allocator records their streams for the tensors that they use.
std::vector<std::uint32_t> start_ring(const Runner& run, const Tensor& sent, const Tensor& received,
                                      std::int64_t bytes) {
  run.eager().record_stream(sent);
  run.eager().record_stream(received);
  // All ranks proceed in step, so the slowest pair of neighbours determines the speed.
  const Axis ring = run.context.ring_ranks();
  CollectiveShape shape{.kind = CollectiveKind::kSend,
                        .bytes = bytes,
                        .group = {.size = ring.size, .stride = ring.stride},
                        .axis = MeshAxis::kContext};
  std::vector<std::uint32_t> marks{torch::start_collective(run.eager(), shape, "ring_send")};
  shape.kind = CollectiveKind::kReceive;
  marks.push_back(torch::start_collective(run.eager(), shape, "ring_receive"));
  return marks;
}

/// Makes the current stream wait for the transfers that the previous step started.
void wait_ring(Eager& eager, std::vector<std::uint32_t>& marks) {
  for (const std::uint32_t mark : marks) {
    eager.wait_mark(eager.stream(), mark);
  }
  marks.clear();
}

struct RingOutput {
  Tensor output;
  Tensor statistics;
  Tensor last;  ///< Keys and values of the last step.
  std::vector<Tensor> random;
};

/// Frees the results of the steps: lists of outputs and of statistics, from their last element.
void let_go(std::vector<KernelOutput>& steps) {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    step->output.reset();
  }
  while (!steps.empty()) {
    steps.pop_back();
  }
}

RingOutput ring_forward(const Runner& run, const QueryKeyValue& qkv, const AttentionSizes& sizes) {
  Eager& eager = run.eager();
  const Axis ring = run.context.ring_ranks();
  const std::int64_t elements = qkv.key.elements() + qkv.value.elements();
  RingOutput result;
  std::vector<KernelOutput> steps;
  std::vector<Tensor> buffers{torch::computed(eager, {elements}, run.context.dtype)};  // cat
  std::vector<std::uint32_t> marks;
  eager.wait_stream(kContextStream, eager.stream());
  for (std::int64_t step = 0; step < ring.size; ++step) {
    {
      const torch::StreamScope stream(eager, step % 2 == 0 ? StreamId{0} : kContextStream);
      wait_ring(eager, marks);
      if (step + 1 < ring.size) {
        buffers.push_back(eager.empty({elements}, run.context.dtype, TensorRole::kCommunication));
        marks = start_ring(run, buffers[buffers.size() - 2], buffers.back(),
                           bytes_of(elements, run.context.dtype).value());
      }
      const Extent extent = extent_of(forward_section(step, ring.rank), sizes.sequence);
      steps.push_back(kernel_forward(run, sizes, extent));
      result.random.push_back(steps.back().random);
    }
    if (step == 1) {
      result.statistics = eager.empty(steps[0].statistics.shape(), DType::kFp32);
    }
    if (step > 0) {  // Updates the statistics of all steps so far.
      torch::launch(eager, {&steps.back().statistics, &result.statistics, &result.statistics});
    }
  }
  eager.wait_stream(eager.stream(), kContextStream);
  result.output = eager.empty(steps[0].output.shape(), run.context.dtype);
  // The outputs of the steps are corrected with their statistics and summed.
  for (const KernelOutput& step : steps) {
    torch::launch(eager, {&step.output, &step.statistics, &result.output, &result.output});
  }
  let_go(steps);
  result.last = buffers.back();
  return result;
}

/// How a step's gradient is merged with those of the previous steps. It is copied where there is
/// none yet.
enum class Merge : std::uint8_t { kCopy, kAdd, kCopyAndAdd };

/// Source: transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py,
/// AttnFuncWithCPAndKVP2P.backward, "sbhd" under a causal mask.
Merge query_merge(std::int64_t step, const Axis& ring) {
  // From this step on, the gradient is that of all queries.
  const std::int64_t whole = ring.size - ring.rank - 1;
  if (step == whole) {
    return step == 0 ? Merge::kCopy : Merge::kCopyAndAdd;
  }
  return step == 0 ? Merge::kCopy : Merge::kAdd;
}

Merge key_merge(std::int64_t step, const Axis& ring) {
  if (step == ring.size - 1) {
    return ring.rank == 0 ? Merge::kCopyAndAdd : Merge::kAdd;
  }
  return step == 0 ? Merge::kCopy : Merge::kAdd;
}

void merge(Eager& eager, const Tensor& gradient, Merge how) {
  const std::int64_t bytes = torch::bytes_of(gradient);
  const std::int64_t added = how == Merge::kCopy ? 0 : how == Merge::kAdd ? bytes : bytes / 2;
  if (added < bytes) {
    eager.run(CopyShape{.kind = CopyKind::kDeviceToDevice, .bytes = bytes - added});
  }
  if (added > 0) {
    torch::launch_kernels(eager, 3 * added);
  }
}

/// The gradients of queries, keys and values, for the ring's tokens and heads.
Gradients ring_backward(const Runner& run, const AttentionSizes& sizes, const Tensor& gradient,
                        Node& node) {
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  const Axis ring = run.context.ring_ranks();
  const DType dtype = run.context.dtype;
  const std::int64_t elements = saved[1].elements();
  const std::int64_t bytes = bytes_of(elements, dtype).value();
  Tensor half;
  if (ring.rank < ring.size - 1) {
    half = eager.empty({sizes.batch, sizes.heads, sizes.sequence / 2, 1}, DType::kFp32);
  }
  Tensor query = eager.empty(saved[0].shape(), dtype);
  const Tensor travelling = eager.empty({2, elements}, dtype, TensorRole::kCommunication);
  const Tensor other = eager.empty({2, elements}, dtype, TensorRole::kCommunication);
  std::vector<Tensor> exchanged;  // The output and its gradient.
  if (run.context.exchange_ranks().size > 1) {
    exchanged = exchange_heads(run, Side::kBefore, {saved[2], gradient});
  }
  Tensor sent = travelling;
  Tensor received = other;
  std::vector<std::uint32_t> marks;
  for (std::int64_t step = 0; step < ring.size; ++step) {
    // The first step sends keys and values, the last sends gradients, and those in between send
    // both.
    const bool ends = step == 0 || step == ring.size - 1;
    wait_ring(eager, marks);
    marks = start_ring(run, step == 0 ? saved[1] : sent, received, ends ? bytes : 2 * bytes);
    std::swap(sent, received);
    const Section section = step == ring.size - 1               ? Section::kDiagonal
                            : step >= ring.size - ring.rank - 1 ? Section::kLower
                                                                : Section::kUpper;
    const std::vector<Tensor> gradients =
        kernel_backward(run, sizes, extent_of(section, sizes.sequence));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      merge(eager, gradients[i], i == 0 ? query_merge(step, ring) : key_merge(step, ring));
    }
  }
  wait_ring(eager, marks);
  const torch::Shape keys{saved[0].shape()[0], sizes.kv_heads * sizes.head_dim};
  const torch::Shape values{saved[0].shape()[0], sizes.kv_heads * sizes.value_dim};
  Gradients result{std::move(query), eager.alias(travelling, keys, true),
                   eager.alias(travelling, values, true)};
  return exchanged.empty() ? result : exchange_heads(run, Side::kAfter, result);
}

}  // namespace

Tensor ring_attention(const Runner& run, const QueryKeyValue& parts, const AttentionSizes& sizes) {
  run.process.touch_sequence_lengths();
  const QueryKeyValue qkv = is_flash(run) ? by_sequence(run, parts, sizes) : parts;
  Record record(run.eager(), {&qkv.query, &qkv.key, &qkv.value});
  const std::int64_t ranks = run.context.exchange_ranks().size;
  const AttentionSizes own = ranks > 1 ? exchanged_sizes(sizes, ranks) : sizes;
  QueryKeyValue heads = qkv;
  if (ranks > 1) {
    run.process.touch_chunk_order(Process::ChunkOrder::kBefore);
    const std::vector<Tensor> exchanged =
        exchange_heads(run, Side::kBefore, {qkv.query, qkv.key, qkv.value});
    heads = {.query = exchanged[0], .key = exchanged[1], .value = exchanged[2]};
  }
  RingOutput forward = ring_forward(run, heads, own);
  if (ranks > 1) {
    run.process.touch_chunk_order(Process::ChunkOrder::kAfter);
    forward.output = std::move(exchange_heads(run, Side::kAfter, {forward.output})[0]);
  }
  if (record.active()) {
    record.save(heads.query);
    record.save(forward.last);
    record.save(forward.output);
    record.save(forward.statistics);
    for (const Tensor& random : forward.random) {
      record.save(random);
    }
    record.finish(forward.output, [run, own](Eager& eager, Gradients& grads, Node& node) {
      Tensor by_sequence;
      if (is_flash(run) && own.batch > 1) {
        by_sequence = eager.empty(grads[0].shape(), grads[0].dtype());
        grads[0].reset();
      }
      return ring_backward(run, own, grads[0], node);
    });
  }
  return is_flash(run) && sizes.batch > 1 ? contiguous_copy(run, forward.output)
                                          : std::move(forward.output);
}

}  // namespace headroom::ir::megatron
