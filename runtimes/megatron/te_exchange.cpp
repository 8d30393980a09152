// Transformer Engine's attention in which ranks exchange tokens for heads, as in DeepSpeed-Ulysses.
// Source: attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndQKVOA2A,
//         flash_attn_a2a_communicate and the functions that it compiles to reorder chunks.
#include "runtimes/megatron/te_exchange.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "runtimes/megatron/streams.h"
#include "runtimes/megatron/te_kernels.h"
#include "runtimes/torch/collective.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// One exchange of several tensors, each one step behind the previous. A tensor has three steps: a
/// copy whose pieces are sorted by rank, the exchange itself, and, on the second stream, the result
/// in the order in which it is read. Copies and received tensors live until all have arrived.
class Exchange {
 public:
  Exchange(const Runner& run, Side side) : run_(run), side_(side) {}

  [[nodiscard]] std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) {
    const std::size_t count = inputs.size();
    std::vector<Tensor> outputs(count);
    for (std::size_t step = 0; step < count + 2; ++step) {
      if (step > 0 && step <= count) {
        start(step - 1);
      }
      if (side_ == Side::kAfter && step < count) {
        sent_.push_back(copy_of(inputs[step]));
      }
      if (step > 1) {
        outputs[step - 2] = finish(step - 2);
      }
      if (side_ == Side::kBefore && step < count) {
        sent_.push_back(copy_of(inputs[step]));
      }
    }
    run_.eager().wait_stream(run_.eager().stream(), kContextStream);
    drop(received_);
    drop(sent_);
    return outputs;
  }

 private:
  /// [tokens, width] outside and [tokens * CP, width / CP] between the two exchanges.
  [[nodiscard]] Tensor copy_of(const Tensor& input) const {
    return torch::computed(run_.eager(), input.shape(), input.dtype(), {&input});
  }

  void start(std::size_t at) {
    const Tensor& sent = sent_[at];
    received_.push_back(run_.eager().empty(sent.shape(), sent.dtype(), TensorRole::kCommunication));
    marks_.push_back(torch::start_collective(
        run_.eager(), {.kind = CollectiveKind::kAllToAll,
                       .bytes = bytes_of(sent.elements(), sent.dtype()).value(),
                       .group = run_.context.exchange_ranks().group(),
                       .axis = MeshAxis::kContext}));
  }

  [[nodiscard]] Tensor finish(std::size_t at) {
    const torch::StreamScope stream(run_.eager(), kContextStream);
    run_.eager().wait_mark(kContextStream, marks_[at]);
    const std::int64_t ranks = run_.context.exchange_ranks().size;
    const Shape& shape = received_[at].shape();
    const Shape other = side_ == Side::kBefore ? Shape{shape[0] * ranks, shape[1] / ranks}
                                               : Shape{shape[0] / ranks, shape[1] * ranks};
    return torch::computed(run_.eager(), other, received_[at].dtype(), {&received_[at]});
  }

  /// A Python list frees its last element first.
  static void drop(std::vector<Tensor>& tensors) {
    while (!tensors.empty()) {
      tensors.pop_back();
    }
  }

  const Runner& run_;
  Side side_;
  std::vector<Tensor> sent_;
  std::vector<Tensor> received_;
  std::vector<std::uint32_t> marks_;
};

}  // namespace

AttentionSizes exchanged_sizes(const AttentionSizes& sizes, std::int64_t ranks) {
  AttentionSizes result = sizes;
  result.sequence = sizes.sequence * ranks;
  result.heads = sizes.heads / ranks;
  result.kv_heads = sizes.kv_heads / ranks;
  result.layout = QkvLayout::kSeparate;
  return result;
}

std::vector<Tensor> exchange_heads(const Runner& run, Side side,
                                   const std::vector<Tensor>& inputs) {
  return Exchange(run, side)(inputs);
}

namespace {

Gradients exchanged_gradients(const Runner& run, const AttentionSizes& sizes, Gradients& grads,
                              Node& node) {
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  const Tensor gradient = std::move(Exchange(run, Side::kBefore)({grads[0]})[0]);
  // The gradients of whole sequences are freed one after the other at the end.
  std::deque<Tensor> whole;
  for (Tensor& each : kernel_backward(run, sizes, {sizes.sequence, sizes.sequence})) {
    whole.push_back(std::move(each));
  }
  Gradients result = Exchange(run, Side::kAfter)({whole.begin(), whole.end()});
  while (!whole.empty()) {
    whole.pop_front();
  }
  return result;
}

}  // namespace

Tensor exchanged_attention(const Runner& run, const QueryKeyValue& parts,
                           const AttentionSizes& sizes) {
  run.process.touch_sequence_lengths();
  const QueryKeyValue qkv = is_flash(run) ? by_sequence(run, parts, sizes) : parts;
  const AttentionSizes own = exchanged_sizes(sizes, run.context.grid.context.size);
  Record record(run.eager(), {&qkv.query, &qkv.key, &qkv.value});
  run.process.touch_chunk_order(Process::ChunkOrder::kBefore);
  const std::vector<Tensor> heads = Exchange(run, Side::kBefore)({qkv.query, qkv.key, qkv.value});
  KernelOutput forward = kernel_forward(run, own, {own.sequence, own.sequence});
  run.process.touch_chunk_order(Process::ChunkOrder::kAfter);
  Tensor output = std::move(Exchange(run, Side::kAfter)({forward.output})[0]);
  if (record.active()) {
    for (const Tensor& head : heads) {
      record.save(head);
    }
    record.save(forward.output);
    record.save(forward.statistics);
    record.save(forward.random);
    record.finish(output, [run, own](Eager& eager, Gradients& grads, Node& node) -> Gradients {
      Tensor by_sequence;
      if (is_flash(run) && own.batch > 1) {
        by_sequence = eager.empty(grads[0].shape(), grads[0].dtype());
        grads[0].reset();
        grads[0] = by_sequence;
      }
      return exchanged_gradients(run, own, grads, node);
    });
  }
  return is_flash(run) && sizes.batch > 1 ? contiguous_copy(run, output) : output;
}

}  // namespace headroom::ir::megatron
