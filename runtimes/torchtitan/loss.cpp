#include "runtimes/torchtitan/loss.h"

#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torchtitan/model.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

namespace {

/// torch.where(labels != ignore_index, values, 0): allocates the condition, the zero and the
/// result.
Tensor where_valid(Eager& eager, std::int64_t rows, DType dtype) {
  const Tensor valid = eager.empty({rows}, DType::kBool);
  const Tensor zero = eager.empty({}, dtype);
  return eager.empty({rows}, dtype);
}

/// The output of an all-reduce that is not in place.
Tensor all_reduced(Eager& eager, const Tensor& input) {
  return eager.empty(input.shape(), input.dtype());
}

/// _log_softmax on logits [N, V/T].
Tensor sharded_log_softmax(Eager& eager, const Tensor& logits) {
  const Shape rows{logits.elements() / logits.shape()[-1]};
  Tensor own = eager.empty(rows, DType::kFp32);
  const Tensor greatest = all_reduced(eager, own);
  own.reset();
  Tensor shifted = torch::computed(eager, logits.shape(), DType::kFp32);
  {
    const Tensor exponentials = torch::computed(eager, logits.shape(), DType::kFp32);
    own = eager.empty(rows, DType::kFp32);
  }
  const Tensor sum = all_reduced(eager, own);
  own.reset();
  const Tensor logarithm = eager.empty(rows, DType::kFp32);
  Tensor output = torch::computed(eager, logits.shape(), DType::kFp32);
  shifted.reset();
  return output;
}

/// _nll_loss_forward: the summed loss and the number of valid labels.
std::pair<Tensor, Tensor> sharded_nll(Eager& eager, std::int64_t rows) {
  const Tensor labels = where_valid(eager, rows, DType::kInt64);
  Tensor masked;
  Tensor mask = mask_ids(eager, rows, masked);
  const Tensor chosen = eager.empty({rows}, DType::kFp32);
  mask.reset();
  const Tensor reduced = all_reduced(eager, chosen);
  Tensor negative = eager.empty({rows}, DType::kFp32);
  const Tensor losses = where_valid(eager, rows, DType::kFp32);
  negative.reset();
  Tensor valid;
  {
    Tensor condition = eager.empty({rows}, DType::kBool);
    const Tensor number = eager.empty({}, DType::kInt64);
    { const Tensor widened = eager.empty({rows}, DType::kInt64); }
    condition.reset();
    valid = eager.empty({}, DType::kFp32);
  }
  Tensor loss = eager.empty({}, DType::kFp32);
  return {loss, valid};
}

/// _nll_loss_and_log_softmax_backward.
Tensor sharded_gradient(Eager& eager, const Tensor& log_probabilities, std::int64_t rows) {
  const Shape& shape = log_probabilities.shape();
  const Tensor labels = where_valid(eager, rows, DType::kInt64);
  const Tensor gradient = torch::computed(eager, shape, DType::kFp32);
  Tensor masked;
  const Tensor mask = mask_ids(eager, rows, masked);
  Tensor update = eager.empty({rows}, DType::kFp32);
  update = eager.empty({rows}, DType::kFp32);
  const Tensor range = eager.empty({rows}, DType::kInt64);
  const Tensor scale = where_valid(eager, rows, DType::kFp32);
  Tensor exponentials = torch::computed(eager, shape, DType::kFp32);
  const Tensor sum = torch::computed(eager, shape, DType::kFp32);
  exponentials.reset();
  return torch::computed(eager, shape, DType::kFp32);
}

}  // namespace

Tensor cross_entropy(Eager& eager, const Tensor& logits, const Tensor& labels) {
  const Tensor wide = torch::to(eager, logits, DType::kFp32);
  const Tensor log_probabilities = torch::log_softmax(eager, wide, DType::kFp32);
  return torch::nll_loss(eager, log_probabilities, labels);
}

Tensor compiled_cross_entropy(Eager& eager, const Tensor& logits, const Tensor& labels,
                              const LossKeeps& keeps) {
  constexpr std::int64_t kRowsPerPart = 8192;  // Rows of each partial sum, if there are more rows.
  const std::int64_t rows = labels.elements();
  const Shape each{rows};
  Record record(eager, {&logits});
  record.save(logits);
  record.save(labels);
  const Tensor greatest = eager.empty(each, DType::kFp32);
  const Tensor log_sum = eager.empty(each, DType::kFp32);
  torch::launch(eager, {&logits, &greatest, &log_sum});
  Tensor partial;
  if (rows > kRowsPerPart) {
    partial = eager.empty({ceil_div(rows, kRowsPerPart)}, DType::kFp32, TensorRole::kWorkspace);
    torch::launch(eager, {&labels, &greatest, &log_sum, &partial});
  }
  Tensor loss = eager.empty({}, DType::kFp32);
  if (partial.defined()) {
    torch::launch(eager, {&partial, &loss});
  } else {
    torch::launch(eager, {&labels, &greatest, &log_sum, &loss});
  }
  partial.reset();
  if (keeps.greatest) {
    record.save(greatest);
  }
  if (keeps.log_sum) {
    record.save(log_sum);
  }
  if (record.active()) {
    record.finish(loss, [](Eager& e, Gradients&, Node& node) -> Gradients {
      const torch::Unpacked saved(e, node);
      return {torch::computed(e, saved[0].shape(), saved[0].dtype(), {&saved[0]})};
    });
  }
  return loss;
}

Tensor sharded_cross_entropy(Eager& eager, const Tensor& logits, const Tensor& labels) {
  const Tensor wide = torch::to(eager, logits, DType::kFp32);
  Record record(eager, {&wide});
  const Tensor log_probabilities = sharded_log_softmax(eager, wide);
  auto [loss, valid] = sharded_nll(eager, labels.elements());
  record.save(log_probabilities);
  record.save(labels);
  record.save(valid);
  if (record.active()) {
    record.finish(loss, [rows = labels.elements()](Eager& e, Gradients&, Node& node) -> Gradients {
      const torch::Unpacked saved(e, node);
      return {sharded_gradient(e, saved[0], rows)};
    });
  }
  return loss;
}

Tensor loss_of(Eager& eager, const ParallelPlan& plan, const Tensor& logits, const Tensor& labels) {
  const TitanPlan titan = titan_of(plan);
  eager.set_site("cross_entropy", -1);
  eager.set_role(TensorRole::kLogits);
  Tensor sum;
  if (plan.mesh.tensor > 1 && titan.loss_parallel) {
    sum = sharded_cross_entropy(eager, logits, labels);
  } else {
    const LossKeeps keeps = titan.memory_budget ? loss_keeps(labels.elements(), logits.shape()[-1],
                                                             *titan.memory_budget)
                                                : LossKeeps{};
    sum = compiles_loss(plan) ? compiled_cross_entropy(eager, logits, labels, keeps)
                              : torchtitan::cross_entropy(eager, logits, labels);
  }
  eager.set_role(TensorRole::kTemporary);
  return sum;
}

}  // namespace headroom::ir::torchtitan
