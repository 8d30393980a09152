#include "runtimes/transformers/losses.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/transformers/loss_labels.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Shape;
using torch::Tensor;

namespace {

constexpr std::int64_t kPieces = 8;  ///< torchtune's num_output_chunks.

/// hidden.chunk(8, dim=1): views; backward concatenates their gradients.
std::vector<Tensor> pieces_of(Eager& eager, const Tensor& hidden) {
  const Shape& shape = hidden.shape();
  const std::int64_t length = ceil_div(shape[1], kPieces);
  torch::Record record(eager, {&hidden});
  std::vector<Tensor> pieces;
  for (std::int64_t start = 0; start < shape[1]; start += length) {
    const std::int64_t size = std::min(length, shape[1] - start);
    pieces.push_back(eager.alias(hidden, shape.with(1, size), true));
  }
  if (record.active()) {
    std::vector<Tensor*> outputs;
    for (Tensor& piece : pieces) {
      outputs.push_back(&piece);
    }
    record.finish(outputs, [shape](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {torch::computed(e, shape, grads[0].dtype())};
    });
  }
  return pieces;
}

Tensor piece_logits(Eager& eager, const HeadInput& head, const Tensor& piece) {
  // A piece of several sequences is not a matrix in memory: it is copied for the weight's gradient,
  // unless a cast copies it anyway. Source: aten/src/ATen/native/LinearAlgebra.cpp, should_fold.
  const bool scattered = piece.shape()[0] > 1 && head.weight.requires_grad();
  const bool converts = eager.autocast() && *eager.autocast() != piece.dtype();
  Tensor logits = torch::linear(eager, scattered && !converts ? torch::clone(eager, piece) : piece,
                                head.weight, head.bias);
  for (std::int64_t i = 0; i < head.pointwise; ++i) {
    logits = torch::scale(eager, logits);
  }
  if (head.softcap) {
    logits = torch::scale(eager, logits);
    logits = torch::tanh(eager, logits);
    logits = torch::scale(eager, logits);
  }
  return logits;
}

/// `total += one`: in place, except for the first.
void accumulate_loss(Eager& eager, Tensor& total, const Tensor& one) {
  torch::Record record(eager, {&total, &one});
  Tensor sum =
      total.defined() ? eager.alias(total, {}, false) : torch::computed(eager, {}, one.dtype());
  if (record.active()) {
    record.finish(sum, [](Eager&, Gradients& grads, Node&) -> Gradients {
      return {grads[0], grads[0]};
    });
  }
  total = std::move(sum);
}

/// Compiled: reads the logits once for two numbers per row, and once for their gradients.
Tensor compiled_cross_entropy(Eager& eager, const Tensor& logits, const Tensor& labels) {
  torch::Record record(eager, {&logits});
  const Shape rows{labels.elements(), 1};
  const Tensor greatest = torch::computed(eager, rows, DType::kFp32, {&logits});
  const Tensor logarithm = torch::computed(eager, rows, DType::kFp32);
  Tensor loss = torch::computed(eager, {}, DType::kFp32);
  for (const Tensor* saved : {&logits, &labels, &greatest, &logarithm}) {
    record.save(*saved);
  }
  if (record.active()) {
    record.finish(loss, [](Eager& e, Gradients&, Node& node) -> Gradients {
      const torch::Unpacked saved(e, node);
      return {torch::computed(e, saved[0].shape(), saved[0].dtype(), {&saved[0]})};
    });
  }
  return loss;
}

Tensor sum_of_pieces(Eager& eager, const std::vector<Tensor>& logits,
                     const std::vector<Tensor>& labels, bool compiled) {
  Tensor total;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    Tensor one;
    if (compiled) {
      one = compiled_cross_entropy(eager, logits[i], labels[i]);
    } else {
      const Tensor wide = torch::to(eager, logits[i], DType::kFp32);
      const Tensor log_probabilities = torch::log_softmax(eager, wide, DType::kFp32);
      one = torch::nll_loss(eager, log_probabilities, labels[i]);
    }
    accumulate_loss(eager, total, one);
  }
  return total;
}

/// logits[..., :-1, :].contiguous(): a copy if there are several sequences. Backward fills a zero
/// tensor of the whole shape.
Tensor without_last_token(Eager& eager, const Tensor& logits) {
  const Shape shape = logits.shape().with(1, logits.shape()[1] - 1);
  torch::Record record(eager, {&logits});
  Tensor rows = shape[0] > 1 ? torch::computed(eager, shape, logits.dtype(), {&logits})
                             : eager.alias(logits, shape, true);
  if (record.active()) {
    record.finish(
        rows, [](Eager& e, torch::Gradients& grads, torch::Node& node) -> torch::Gradients {
          return {torch::computed(e, node.input_shapes[0], grads[0].dtype(), {&grads[0]})};
        });
  }
  return rows;
}

}  // namespace

Tensor causal_lm_loss(Eager& eager, const Tensor& logits, const Tensor& ids) {
  ShiftedLabels shifted;
  const Tensor wide = torch::to(eager, logits, DType::kFp32);
  shifted = shift_labels(eager, ids);
  const Tensor log_probabilities = torch::log_softmax(eager, wide, DType::kFp32);
  return torch::nll_loss(eager, log_probabilities, shifted.labels);
}

Tensor shifted_logits_loss(Eager& eager, const Tensor& logits, const Tensor& ids, bool widens) {
  const Tensor wide = widens ? torch::to(eager, logits, DType::kFp32) : logits;
  const Tensor rows = without_last_token(eager, wide);
  const Shape shape{ids.shape()[0], ids.shape()[1] - 1};
  const Tensor labels =
      shape[0] > 1 ? torch::computed(eager, shape, DType::kInt64) : eager.alias(ids, shape, false);
  return torch::cross_entropy(eager, rows, labels);
}

HeadInput head_input(const Model& model, NodeId first, const Tensor& hidden) {
  const Graph& graph = *model.graph;
  HeadInput head{.hidden = hidden, .weight = {}, .bias = {}};
  head.compiled = model.setting.compiles_loss;
  for (std::size_t at = index_of(first); at + 1 < graph.op_count(); ++at) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(at)});
    if (op.kind == OpKind::kLinear && op.role == OpRole::kHead) {
      head.weight = parameter_of(model, op, 0);
      head.bias = parameter_of(model, op, 1);
    } else if (op.kind == OpKind::kSoftcap) {
      head.softcap = true;
    } else if (op.kind == OpKind::kScale) {
      ++head.pointwise;
    }
  }
  return head;
}

Tensor chunked_loss(Eager& eager, const HeadInput& head, const Tensor& ids) {
  std::vector<Tensor> logits;
  {
    std::vector<Tensor> pieces = pieces_of(eager, head.hidden);
    for (Tensor& piece : pieces) {
      logits.push_back(piece_logits(eager, head, piece));
    }
  }
  ShiftedLabels shifted = shift_labels(eager, ids);
  shifted.padded.reset();
  LabelCount count = count_labels(eager, ids.shape());
  count.mask.reset();
  std::vector<Tensor> labels;
  for (const Tensor& piece : logits) {
    const Shape rows{piece.shape()[0] * piece.shape()[1]};
    labels.push_back(ids.shape()[0] > 1 ? torch::computed(eager, rows, DType::kInt64)
                                        : eager.alias(shifted.labels, rows, true));
  }
  Tensor total = sum_of_pieces(eager, logits, labels, head.compiled);
  labels.clear();
  Tensor loss = torch::divide_by_constant(eager, total, count.count);
  total.reset();
  torch::release_list(logits);
  return loss;
}

}  // namespace headroom::ir::transformers
