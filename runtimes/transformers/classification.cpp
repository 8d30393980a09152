#include "runtimes/transformers/classification.h"

#include <utility>

#include "model_ir/spec/task.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

/// Local names of forward, which live until it returns.
struct LastToken {
  Tensor mask;
  Tensor positions;
  Tensor index;
};

/// (token_indices * non_pad_mask).argmax(-1)
LastToken find_last_token(Eager& eager, const Tensor& ids) {
  const torch::Shape& shape = ids.shape();
  LastToken last;
  {
    const Tensor differs = torch::computed(eager, shape, DType::kBool, {&ids});
    last.mask = torch::computed(eager, shape, DType::kInt32, {&differs});
  }
  last.positions = torch::computed(eager, {shape[1]}, DType::kInt32);
  const Tensor product = torch::computed(eager, shape, DType::kInt32, {&last.mask});
  last.index = torch::computed(eager, {shape[0]}, DType::kInt64, {&product});
  return last;
}

/// logits[torch.arange(batch_size), last_non_pad_token]
Tensor pool_last(Eager& eager, const Tensor& logits, const LastToken& last) {
  const Tensor rows = torch::computed(eager, {logits.shape()[0]}, DType::kInt64);
  if (last.index.defined()) {
    return torch::gather_tokens(eager, logits, rows, last.index);
  }
  return torch::gather_rows(eager, torch::select_token(eager, logits), rows);
}

/// squeeze(): a view.
Tensor squeezed(Eager& eager, const Tensor& values) {
  return torch::view(eager, values, {values.elements()});
}

}  // namespace

Tensor labels_of(Eager& eager, const ModelSpec& spec, const Tensor& ids) {
  if (spec.task != Task::kSequenceClassification) {
    return ids;
  }
  return torch::filled(eager, {ids.shape()[0]}, spec.labels == 1 ? DType::kFp32 : DType::kInt64);
}

ModelOutput run_classifier(Eager& eager, Model& model, Interpreter& interpreter, const Batch& batch,
                           NodeId head) {
  const Graph& graph = *model.graph;
  const ModelSpec& spec = *model.spec;
  const NodeId loss{static_cast<std::uint32_t>(graph.op_count() - 1)};
  const auto pools_last = [&](const Op& op) {
    return op.kind == OpKind::kPool && op.pooling == Pooling::kLast;
  };
  eager.set_role(TensorRole::kLogits);
  Tensor classified;  // forward's name for the classifier's input.
  for (; head != loss && !pools_last(graph.op(head)); head = next(head)) {
    if (graph.op(head).kind == OpKind::kLinear) {
      classified = interpreter.peek(graph.op(head).inputs[0]);
    }
    interpreter.run(head, head);
  }
  ModelOutput output;
  const Tensor logits = interpreter.take(graph.op(head).inputs[0]);
  output.logits = logits;
  LastToken last;
  if (head != loss) {
    eager.set_site("pool", -1);
    if (spec.pad_token || batch.ids.shape()[0] > 1) {
      last = find_last_token(eager, batch.ids);
    }
    output.logits = pool_last(eager, logits, last);
  }
  eager.set_site("cross_entropy", -1);
  if (graph.op(loss).kind == OpKind::kSquaredError) {
    output.loss = torch::mse_loss(eager, squeezed(eager, output.logits), batch.labels);
  } else {
    const bool widens = classifier_form(spec.family, spec.task)->widens;
    output.loss = torch::cross_entropy(
        eager, widens ? torch::to(eager, logits, DType::kFp32) : output.logits, batch.labels);
  }
  if (spec.architecture == Architecture::kMaskedLm) {
    leave_part(model.hooks, {.part = ModuleCall::Part::kModel}, {&output.loss});
  }
  eager.set_role(TensorRole::kTemporary);
  return output;
}

}  // namespace headroom::ir::transformers
