#include <utility>

#include "runtimes/megatron/head.h"
#include "runtimes/megatron/te_gemm.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Layout;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// transpose(0, 1).contiguous(): [B, S, H] to [S, B, H], here [T, H]. The gradient is transposed in
/// memory, unless there is only one sequence, whose layout does not change.
Tensor sequence_first(const Runner& run, const Tensor& rows) {
  Eager& eager = run.eager();
  const torch::Shape flat{run.context.tokens(), run.context.spec.hidden};
  const bool copies = run.context.plan.workload.micro_batch > 1;
  Record record(eager, {&rows});
  Tensor output = copies ? eager.empty(flat, rows.dtype()) : eager.alias(rows, flat, true);
  if (copies) {
    torch::launch(eager, {&rows, &output});
  }
  record.finish(output, [copies](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Tensor gradient = e.alias(grads[0], node.input_shapes[0], true);
    gradient->layout = copies ? Layout::kSwapped : Layout::kContiguous;
    return {gradient};
  });
  return output;
}

/// Takes this rank's part of the sequence; backward gathers the gradient.
Tensor take_part(const Runner& run, const Tensor& whole, bool reduced) {
  Eager& eager = run.eager();
  const torch::Shape part = whole.shape().with(0, run.context.stream_tokens());
  Record record(eager, {&whole});
  Tensor output = reduced ? eager.empty(part, whole.dtype()) : eager.alias(whole, part, true);
  if (reduced) {
    communicate(run, CollectiveKind::kReduceScatter, whole);
  }
  record.finish(output, [run](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Tensor gathered = e.empty(node.input_shapes[0], grads[0].dtype());
    communicate(run, CollectiveKind::kAllGather, gathered);
    return {gathered};
  });
  return output;
}

/// VocabParallelEmbedding: ids whose rows other ranks hold are masked.
Tensor word_rows(const Runner& run, const Tensor& weight, const Tensor& ids) {
  Eager& eager = run.eager();
  if (run.context.grid.tensor.size == 1) {
    return torch::embedding(eager, weight, ids);
  }
  Tensor mask;
  {
    const Tensor below = eager.empty(ids.shape(), DType::kBool);
    const Tensor above = eager.empty(ids.shape(), DType::kBool);
    mask = eager.empty(ids.shape(), DType::kBool);
  }
  Tensor masked;
  {
    const Tensor clone = eager.empty(ids.shape(), DType::kInt64);
    masked = eager.empty(ids.shape(), DType::kInt64);
  }
  torch::launch_kernels(eager, 6 * 8 * ids.elements(), 6);  // Makes the mask and the masked ids.
  Tensor rows = torch::embedding(eager, weight, masked);
  torch::launch(eager, {&rows});
  // rows[mask] = 0.0 saves the mask; backward passes on a gradient with those rows set to zero.
  Record record(eager, {&rows});
  record.save(mask);
  Tensor output = eager.alias(rows, rows.shape(), false);
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    Tensor gradient = e.empty(grads[0].shape(), grads[0].dtype());
    torch::launch(e, {&grads[0], &gradient, &gradient});
    gradient->layout = grads[0]->layout;
    return {gradient};
  });
  return output;
}

/// All-reduce over the tensor-parallel ranks, in place.
Tensor reduce_rows(const Runner& run, Tensor rows) {
  if (run.context.grid.tensor.size > 1) {
    communicate(run, CollectiveKind::kAllReduce, rows);
  }
  return rows;
}

}  // namespace

Tensor embed(const Runner& run, const Chunk& chunk, const Tensor& ids, const Tensor& positions) {
  Eager& eager = run.eager();
  eager.set_site("embedding", -1);
  const bool sequence = run.context.sequence_parallel();
  const bool learned = chunk.positions.defined();
  // This Python name keeps the tensor alive until the end of the forward.
  Tensor words = word_rows(run, chunk.embedding, ids);
  if (learned || !sequence) {
    words = reduce_rows(run, std::move(words));
  }
  Tensor position_rows;
  Tensor rows;
  if (learned) {
    position_rows = torch::embedding(eager, chunk.positions, positions);
    rows = torch::add(eager, words, position_rows);
  } else {
    rows = sequence ? std::exchange(words, Tensor{}) : words;
  }
  rows = sequence_first(run, rows);
  if (sequence) {
    rows = take_part(run, rows, !learned);
    words = learned ? words : rows;
    rows = torch::clone(eager, rows);
  }
  return torch::dropout(eager, rows, run.context.spec.dropout.embedding);
}

}  // namespace headroom::ir::megatron
