#include "model_ir/runtime/transformers/encoder.h"

#include <memory>
#include <utility>

#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/launch.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

/// Ids of positions and token types, both from the model's buffers: [1, S] each, the second seen
/// by every row of the batch.
void make_ids(Eager& eager, const Model& model, Shared& shared) {
  const std::int64_t sequence = model.plan->sequence;
  const std::int64_t batch = model.plan->micro_batch;
  shared.position_ids = eager.alias(model.buffers.at(0), {1, sequence}, true);
  const Tensor gathered = torch::computed(eager, {1, sequence}, DType::kInt64, TensorRole::kInput);
  shared.token_type_ids = eager.alias(gathered, {batch, sequence}, true);
  if (batch > 1) {
    shared.token_type_ids->layout = torch::Layout::kRepeated;
  }
}

/// BertEmbeddings.forward: what its names hold goes when it returns.
Tensor embed(Eager& eager, const Model& model, Interpreter& interpreter) {
  const Graph& graph = *model.graph;
  Shared& shared = interpreter.shared();
  eager.set_site("positions", -1);
  make_ids(eager, model, shared);
  for (NodeId id{0}; id != graph.layers().front().first; id = next(id)) {
    interpreter.run(id, id);
    if (graph.op(id).kind == OpKind::kEmbedding) {
      shared.token_rows = interpreter.peek(graph.op(id).outputs[0]);
      require_gradient(model, shared.token_rows);
    }
  }
  for (Tensor* name : {&shared.position_ids, &shared.token_rows, &shared.token_type_ids,
                       &shared.token_type_rows, &shared.position_rows}) {
    name->reset();
  }
  return interpreter.take(graph.layers().front().input);
}

/// Asks log_softmax for the logits' type, which autocast respects; nll_loss it makes fp32.
/// Source: pytorch/pytorch aten/src/ATen/native/LossNLL.cpp, cross_entropy_loss, and
/// aten/src/ATen/autocast_mode.h.
Tensor cross_entropy(Eager& eager, const Tensor& logits, const Tensor& labels) {
  Tensor log_probabilities = torch::log_softmax(eager, logits, logits.dtype());
  if (eager.autocast()) {
    const Tensor wide = torch::to(eager, log_probabilities, DType::kFp32);
    return torch::nll_loss(eager, wide, labels);
  }
  return torch::nll_loss(eager, log_probabilities, labels);
}

}  // namespace

ModelOutput run_plain_head(Eager& eager, Model& model, Interpreter& interpreter,
                           const Tensor& labels, NodeId head) {
  const Graph& graph = *model.graph;
  const NodeId loss{static_cast<std::uint32_t>(graph.op_count() - 1)};
  eager.set_role(TensorRole::kLogits);
  for (; head != loss; head = next(head)) {
    interpreter.run(head, head);
  }
  ModelOutput output;
  output.logits = interpreter.take(graph.op(loss).inputs[0]);
  eager.set_site("cross_entropy", -1);
  output.loss = cross_entropy(eager, output.logits, labels);
  eager.set_role(TensorRole::kTemporary);
  return output;
}

ModelOutput forward_masked(Eager& eager, Model& model, const Tensor& ids) {
  const Graph& graph = *model.graph;
  const auto interpreter = std::make_shared<Interpreter>(eager, model);
  interpreter->set(graph.op(NodeId{0}).inputs[0], ids);
  eager.set_role(TensorRole::kTemporary);
  {
    const Tensor embedded = embed(eager, model, *interpreter);
    Tensor hidden = run_layers(eager, model, interpreter, embedded);
    interpreter->set(graph.layers().back().output, std::move(hidden));
  }
  // The last hidden states are a name of the outer module and live as long as its forward.
  const Tensor last_hidden = interpreter->peek(graph.layers().back().output);
  return run_plain_head(eager, model, *interpreter, ids, next(graph.layers().back().last));
}

}  // namespace headroom::ir::transformers
