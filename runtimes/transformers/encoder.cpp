#include "runtimes/transformers/encoder.h"

#include <memory>
#include <utility>
#include <vector>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/transformers/classification.h"
#include "runtimes/transformers/layers.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/masks.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

/// Ids of positions and token types, both from the model's buffers: [1, S] each; the second is
/// expanded to every row of the batch.
void make_ids(Eager& eager, const Model& model, Shared& shared) {
  const std::int64_t sequence = model.plan->workload.sequence;
  const std::int64_t batch = model.plan->workload.micro_batch;
  shared.position_ids = eager.alias(model.buffers.at(0), {1, sequence}, true);
  const bool buffered = library_traits(*model.spec, *model.plan).fourth;
  const Tensor row = buffered
                         ? model.buffers.at(1)
                         : torch::computed(eager, {1, sequence}, DType::kInt64, TensorRole::kInput);
  shared.token_type_ids = eager.alias(row, {batch, sequence}, true);
  if (batch > 1) {
    shared.token_type_ids->layout = torch::Layout::kRepeated;
  }
}

/// BertEmbeddings.forward: its local tensors are freed when it returns.
Tensor embed(Eager& eager, const Model& model, Interpreter& interpreter) {
  const Graph& graph = *model.graph;
  Shared& shared = interpreter.shared();
  enter_part(model.hooks, {.part = ModuleCall::Part::kEmbeddings}, {});
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
  Tensor embedded = interpreter.take(graph.layers().front().input);
  leave_part(model.hooks, {.part = ModuleCall::Part::kEmbeddings}, {&embedded});
  return embedded;
}

/// Hooks around the modules of a masked language model's head.
class HeadModules {
 public:
  HeadModules(const ModuleHooks& hooks, const Op& first) : hooks_(hooks) {
    if (first.role == OpRole::kHeadDense) {
      open_ = {Part::kHead, Part::kPredictions, Part::kTransform};
    }
  }
  void enter(Tensor& states, const Op& head) {
    head_ = &head;
    for (const Part part : open_) {
      enter_part(hooks_, call_of(part), {&states});
    }
  }
  /// The transformation has returned.
  void leave_transform(Tensor& states) {
    open_.pop_back();
    leave_part(hooks_, call_of(Part::kTransform), {&states});
  }
  void leave(Tensor& logits) {
    for (; !open_.empty(); open_.pop_back()) {
      leave_part(hooks_, call_of(open_.back()), {&logits});
    }
  }

 private:
  using Part = ModuleCall::Part;
  [[nodiscard]] ModuleCall call_of(Part part) const {
    return {.part = part, .layer = -1, .op = head_};
  }
  const ModuleHooks& hooks_;
  const Op* head_ = nullptr;
  std::vector<Part> open_;
};

/// The mask of ones that BertModel makes until 4.57. As all of it is set, sdpa gets no mask;
/// otherwise the result is what is added to the scores, [B, 1, 1, S].
Tensor make_masks_of_four(Eager& eager, const Model& model, DType dtype, Shared& shared) {
  if (!library_traits(*model.spec, *model.plan).fourth) {
    return {};
  }
  eager.set_site("masks", -1);
  const torch::Shape shape{model.plan->workload.micro_batch, model.plan->workload.sequence};
  Tensor ones = torch::computed(eager, shape, DType::kFp32);
  if (!runs_eager(*model.spec, *model.plan)) {
    const Tensor equal = torch::computed(eager, shape, DType::kBool);
    const Tensor all = torch::computed(eager, {}, DType::kBool);
    return ones;
  }
  shared.mask = inverted_mask(eager, ones, dtype);
  return ones;
}

/// Whether the operator is part of the inner model's pooler: pooling, its linear layer and what
/// follows.
bool is_pooler(const Graph& graph, NodeId id) {
  const Op& op = graph.op(id);
  return op.kind == OpKind::kPool || op.role == OpRole::kPooler ||
         (op.kind == OpKind::kActivation && op.activation == Activation::kTanh);
}

/// Runs BertPooler, if there is one; `head` is then the operator after it.
Tensor run_pooler(const Model& model, Interpreter& interpreter, const Tensor& hidden,
                  NodeId& head) {
  const Graph& graph = *model.graph;
  interpreter.set(graph.layers().back().output, hidden);
  if (!is_pooler(graph, head)) {
    return {};
  }
  const ModuleCall call{.part = ModuleCall::Part::kPooler, .layer = -1, .op = &graph.op(head)};
  Tensor given = hidden;
  enter_part(model.hooks, call, {&given});
  interpreter.set(graph.layers().back().output, std::move(given));
  NodeId last = head;
  for (; is_pooler(graph, head); head = next(head)) {
    interpreter.run(head, head);
    last = head;
  }
  Tensor pooled = interpreter.peek(graph.op(last).outputs[0]);
  leave_part(model.hooks, call, {&pooled});
  return pooled;
}

}  // namespace

ModelOutput run_plain_head(Eager& eager, Model& model, Interpreter& interpreter,
                           const Tensor& labels, NodeId head) {
  const Graph& graph = *model.graph;
  const NodeId loss{static_cast<std::uint32_t>(graph.op_count() - 1)};
  eager.set_role(TensorRole::kLogits);
  HeadModules modules(model.hooks, graph.op(head));
  Tensor states = interpreter.take(graph.op(head).inputs[0]);
  modules.enter(states, graph.op(NodeId{static_cast<std::uint32_t>(index_of(loss) - 1)}));
  interpreter.set(graph.op(head).inputs[0], std::move(states));
  for (; head != loss; head = next(head)) {
    interpreter.run(head, head);
    if (graph.op(head).role == OpRole::kHeadDenseNorm) {
      Tensor transformed = interpreter.take(graph.op(head).outputs[0]);
      modules.leave_transform(transformed);
      interpreter.set(graph.op(head).outputs[0], std::move(transformed));
    }
  }
  ModelOutput output;
  output.logits = interpreter.take(graph.op(loss).inputs[0]);
  modules.leave(output.logits);
  eager.set_site("cross_entropy", -1);
  output.loss = torch::cross_entropy(eager, output.logits, labels);
  leave_part(model.hooks, {.part = ModuleCall::Part::kModel}, {&output.loss});
  eager.set_role(TensorRole::kTemporary);
  return output;
}

ModelOutput forward_masked(Eager& eager, Model& model, const Batch& batch) {
  const Graph& graph = *model.graph;
  const auto interpreter = std::make_shared<Interpreter>(eager, model);
  interpreter->set(graph.op(NodeId{0}).inputs[0], batch.ids);
  eager.set_role(TensorRole::kTemporary);
  NodeId head = next(graph.layers().back().last);
  // The outer module has a name for the last hidden states, which live as long as its forward.
  Tensor last_hidden;
  Tensor pooled;  // The same for the pooled output.
  enter_part(model.hooks, {.part = ModuleCall::Part::kModel}, {});
  enter_part(model.hooks, {.part = ModuleCall::Part::kDecoder}, {});
  {
    const Tensor embedded = embed(eager, model, *interpreter);
    const Tensor ones = make_masks_of_four(eager, model, embedded.dtype(), interpreter->shared());
    if (batch.mask.defined()) {
      eager.set_site("masks", -1);
      interpreter->shared().mask =
          make_bidirectional_mask(eager, model, {.padding = batch.mask, .dtype = embedded.dtype()});
    }
    Tensor given = embedded;
    enter_part(model.hooks, {.part = ModuleCall::Part::kEncoder}, {&given});
    last_hidden = run_layers(eager, model, interpreter, std::move(given));
    leave_part(model.hooks, {.part = ModuleCall::Part::kEncoder}, {&last_hidden});
    interpreter->leave_layers();
    pooled = run_pooler(model, *interpreter, last_hidden, head);
    interpreter->shared().mask.reset();  // Checkpointed layers hold their arguments.
  }
  Tensor& handed = model.spec->task == Task::kSequenceClassification ? pooled : last_hidden;
  leave_part(model.hooks, {.part = ModuleCall::Part::kDecoder}, {&last_hidden, &pooled});
  interpreter->set(graph.op(head).inputs[0], handed);
  return model.spec->task == Task::kLanguage
             ? run_plain_head(eager, model, *interpreter, batch.labels, head)
             : run_classifier(eager, model, *interpreter, batch, head);
}

}  // namespace headroom::ir::transformers
