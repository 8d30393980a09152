#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::torch {

Tensor log_softmax(Eager& eager, const Tensor& input, DType dtype) {
  const Tensor x = to(eager, input, dtype);
  Record record(eager, {&x});
  Tensor output = eager.empty(x.shape(), dtype);
  if (record.active()) {
    record.save(output);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      return {e.empty(grads[0].shape(), node.input_dtypes[0])};
    });
  }
  return output;
}

Tensor nll_loss(Eager& eager, const Tensor& log_probabilities, const Tensor& labels) {
  Record record(eager, {&log_probabilities});
  record.save(log_probabilities);
  record.save(labels);
  Tensor loss = eager.empty({}, log_probabilities.dtype());
  Tensor total_weight = eager.empty({}, log_probabilities.dtype());
  if (record.active()) {
    record.save(total_weight);
    record.finish(loss, [](Eager& e, Gradients&, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      return {e.empty(saved.shape(), saved.dtype())};
    });
  }
  return loss;
}

}  // namespace headroom::ir::torch
