#include "runtimes/transformers/router_loss.h"

#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Shape;
using torch::Tensor;

namespace {

/// `input.sum(dim=0)` of an fp32 matrix, or `input.sum()` of a vector; backward expands.
Tensor sum_first(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  const bool matrix = shape.rank() == 2;
  torch::Record record(eager, {&input});
  const std::int64_t outputs = matrix ? shape[1] : 1;
  Tensor output = torch::reduce(eager, matrix ? Shape{outputs} : Shape{}, DType::kFp32,
                                {.outputs = outputs,
                                 .inputs_per_output = shape[0],
                                 .innermost = !matrix,
                                 .accumulator_bytes = 4,
                                 .element_bytes = 4});
  if (record.active()) {
    record.finish(output, [shape](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {e.alias(grads[0], shape, true)};
    });
  }
  return output;
}

/// The least or the greatest of all indices, read by the host.
void read_bound(Eager& eager, const Tensor& indices) {
  const Tensor bound = torch::reduce(eager, {}, DType::kInt64,
                                     {.outputs = 1,
                                      .inputs_per_output = indices.elements(),
                                      .innermost = true,
                                      .accumulator_bytes = 8,
                                      .element_bytes = 8});
}

/// torch.bincount(indices, minlength=E).float()
/// Source: pytorch/pytorch aten/src/ATen/native/cuda/SummaryOps.cu, _bincount_cuda_template.
Tensor count_tokens(Eager& eager, const Tensor& indices, std::int64_t experts) {
  read_bound(eager, indices);
  read_bound(eager, indices);
  const Tensor counts = torch::filled(eager, {experts}, DType::kInt64);
  torch::launch_fill(eager, indices);
  return torch::to(eager, counts, DType::kFp32);
}

/// The same if padding does not count: zeros, to which the mask of each token is added.
Tensor weigh_tokens(Eager& eager, const Tensor& indices, const Tensor& mask, std::int64_t experts) {
  Tensor counts = torch::filled(eager, {experts}, DType::kFp32);
  const Tensor repeated = torch::computed(eager, {indices.elements()}, DType::kFp32, {&mask});
  torch::launch_fill(eager, repeated);
  return counts;
}

/// The names of load_balancing_loss_func.
struct LossFrame {
  Tensor tokens, probabilities, rows, mask, routing, values, indices;

  /// In the order of their first assignment.
  void clear() {
    for (Tensor* const name :
         {&tokens, &probabilities, &rows, &mask, &routing, &values, &indices}) {
      name->reset();
    }
  }
};

/// `total = total + part`: `part` is released before the name is assigned.
void add_part(Eager& eager, Tensor& total, Tensor part) {
  Tensor sum = torch::add(eager, total, part);
  part.reset();
  total = std::move(sum);
}

/// total_rows, which starts as a Python number.
void add_rows(Eager& eager, const Tensor& mask, Tensor& total) {
  Tensor rows = sum_first(eager, mask);
  if (total.defined()) {
    add_part(eager, total, std::move(rows));
  } else {
    total = torch::shift(eager, rows);
  }
}

void add_layer(Eager& eager, const MoeSpec& moe, const Tensor& logits, LossFrame& frame) {
  const DType dtype = eager.autocast() ? DType::kFp32 : logits.dtype();
  frame.routing = torch::softmax_last(eager, logits, dtype);
  auto [values, indices] = torch::top_k(eager, frame.routing, moe.top_k);
  frame.values = std::move(values);
  frame.indices = std::move(indices);
  if (!frame.mask.defined()) {
    add_part(eager, frame.tokens, count_tokens(eager, frame.indices, moe.experts));
    Tensor wide = torch::to(eager, frame.routing, DType::kFp32);
    Tensor sum = sum_first(eager, wide);
    wide.reset();
    add_part(eager, frame.probabilities, std::move(sum));
    return;
  }
  add_part(eager, frame.tokens, weigh_tokens(eager, frame.indices, frame.mask, moe.experts));
  Tensor wide = torch::to(eager, frame.routing, DType::kFp32);
  const Tensor column = torch::view(eager, frame.mask, {frame.mask.elements(), 1});
  Tensor masked = torch::mul(eager, wide, column);
  wide.reset();
  Tensor sum = sum_first(eager, masked);
  masked.reset();
  add_part(eager, frame.probabilities, std::move(sum));
  add_rows(eager, frame.mask, frame.rows);
}

/// Divides by the number of rows: a Python number, or one computed from the mask.
Tensor mean_of(Eager& eager, const Tensor& total, const Tensor& rows) {
  if (!rows.defined()) {
    return torch::scale(eager, total);
  }
  torch::Record record(eager, {&total});
  record.save(rows);
  Tensor mean = torch::computed(eager, total.shape(), total.dtype(), {&total});
  if (record.active()) {
    record.finish(mean, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      return {torch::computed(e, grads[0].shape(), grads[0].dtype(), {&grads[0]})};
    });
  }
  return mean;
}

}  // namespace

Tensor load_balancing_loss(Eager& eager, const MoeSpec& moe, const std::vector<Tensor>& logits,
                           const Tensor& padding) {
  LossFrame frame;
  frame.tokens = torch::filled(eager, {moe.experts}, DType::kFp32);
  frame.probabilities = torch::filled(eager, {moe.experts}, DType::kFp32);
  if (padding.defined()) {
    frame.mask = torch::computed(eager, {padding.elements()}, DType::kFp32);
  }
  for (const Tensor& layer : logits) {
    add_layer(eager, moe, layer, frame);
  }
  Tensor share = mean_of(eager, frame.tokens, frame.rows);
  Tensor probability = mean_of(eager, frame.probabilities, frame.rows);
  Tensor overall;
  {
    const Tensor product = torch::mul(eager, share, probability);
    overall = sum_first(eager, product);
  }
  Tensor loss = torch::scale(eager, overall);
  frame.clear();
  share.reset();
  probability.reset();
  overall.reset();
  return loss;
}

}  // namespace headroom::ir::transformers
