#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

constexpr std::int64_t kLabelBytes = 8;

}  // namespace

Tensor log_softmax(Eager& eager, const Tensor& input, DType dtype) {
  const Tensor x = to(eager, input, dtype);
  Record record(eager, {&x});
  Tensor output = eager.empty(x.shape(), dtype);
  launch_kernels(eager, bytes_of(x) + bytes_of(output));
  if (record.active()) {
    record.save_output(output);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      Tensor gradient = e.empty(grads[0].shape(), node.input_dtypes[0]);
      launch_kernels(e, bytes_of(grads[0]) + bytes_of(saved) + bytes_of(gradient));
      return {std::move(gradient)};
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
  launch_kernels(eager, 2 * labels.elements() * kLabelBytes);  // Each row is read at one element.
  if (record.active()) {
    record.save(total_weight);
    record.finish(loss, [](Eager& e, Gradients&, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      Tensor gradient = filled(e, saved.shape(), saved.dtype());
      launch_kernels(e, 2 * saved.shape()[0] * kLabelBytes);
      return {std::move(gradient)};
    });
  }
  return loss;
}

Tensor cross_entropy(Eager& eager, const Tensor& logits, const Tensor& labels) {
  const Tensor log_probabilities = log_softmax(eager, logits, logits.dtype());
  const Tensor wide =
      eager.autocast() ? to(eager, log_probabilities, DType::kFp32) : log_probabilities;
  return nll_loss(eager, wide, labels);
}

Tensor mse_loss(Eager& eager, const Tensor& values, const Tensor& labels) {
  const Tensor wide = eager.autocast() ? to(eager, values, DType::kFp32) : values;
  Record record(eager, {&wide});
  record.save(wide);
  record.save(labels);
  const Tensor squares = computed(eager, wide.shape(), wide.dtype(), {&wide, &labels});
  Tensor loss = computed(eager, {}, wide.dtype(), {&squares});
  if (record.active()) {
    record.finish(loss, [](Eager& e, Gradients&, Node& node) -> Gradients {
      const Unpacked saved(e, node);
      return {computed(e, saved[0].shape(), saved[0].dtype(), {&saved[0], &saved[1]})};
    });
  }
  return loss;
}

}  // namespace headroom::ir::torch
