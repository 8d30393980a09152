#include "model_ir/runtime/transformers/encoder.h"

#include <memory>
#include <utility>

#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/launch.h"
#include "model_ir/runtime/transformers/classification.h"

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

/// The pooler is the inner model's: pooling, its linear layer and what follows.
bool is_pooler(const Graph& graph, NodeId id) {
  const Op& op = graph.op(id);
  return op.kind == OpKind::kPool || op.role == OpRole::kPooler ||
         (op.kind == OpKind::kActivation && op.activation == Activation::kTanh);
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
  output.loss = torch::cross_entropy(eager, output.logits, labels);
  eager.set_role(TensorRole::kTemporary);
  return output;
}

ModelOutput forward_masked(Eager& eager, Model& model, const Batch& batch) {
  const Graph& graph = *model.graph;
  const auto interpreter = std::make_shared<Interpreter>(eager, model);
  interpreter->set(graph.op(NodeId{0}).inputs[0], batch.ids);
  eager.set_role(TensorRole::kTemporary);
  NodeId head = next(graph.layers().back().last);
  // The last hidden states are a name of the outer module and live as long as its forward.
  Tensor last_hidden;
  Tensor pooled;  // Likewise.
  {
    const Tensor embedded = embed(eager, model, *interpreter);
    last_hidden = run_layers(eager, model, interpreter, embedded);
    interpreter->set(graph.layers().back().output, last_hidden);
    for (; is_pooler(graph, head); head = next(head)) {
      interpreter->run(head, head);
      pooled = interpreter->peek(graph.op(head).outputs[0]);
    }
  }
  return model.spec->task == Task::kLanguage
             ? run_plain_head(eager, model, *interpreter, batch.labels, head)
             : run_classifier(eager, model, *interpreter, batch, head);
}

}  // namespace headroom::ir::transformers
