// Liger's fused linear cross entropy.

#include <algorithm>
#include <bit>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/split_reduction.h"
#include "runtimes/transformers/loss_labels.h"
#include "runtimes/transformers/losses.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Shape;
using torch::Tensor;

namespace {

/// The state of one fused loss.
struct Fused {
  Eager& eager;
  Tensor input;        ///< [T, H]
  Tensor weight;       ///< [V, H]
  DType logits_dtype;  ///< Type of the product of both.
  bool in_place;       ///< Products go to memory made once, because no cast is needed.
  Tensor grad_input;
  Tensor grad_weight;  ///< Undefined for a frozen weight.
};

void count_products(Fused& fused, std::int64_t rows) {
  const Shape& weight = fused.weight.shape();
  const int products = fused.grad_weight.defined() ? 3 : 2;
  for (int product = 0; product < products; ++product) {
    fused.eager.touch_cublas();
    GemmShape shape{.m = rows, .n = weight[0], .k = weight[1], .dtype = fused.logits_dtype};
    if (product == 1) {  // The gradient of the rows.
      std::swap(shape.n, shape.k);
      shape.layout = GemmLayout::kNN;
    } else if (product == 2) {  // The gradient of the weight.
      shape = {.m = weight[0],
               .n = weight[1],
               .k = rows,
               .dtype = fused.logits_dtype,
               .layout = GemmLayout::kNT,
               .accumulate = true};
    }
    fused.eager.run(shape);
  }
}

/// `input @ weight.t()` and `gradient @ weight` under autocast: the transposed weight is a view,
/// which autocast does not cache. The weight itself is cached if it is trained.
Tensor converted_logits(Fused& fused, std::int64_t rows) {
  Eager& eager = fused.eager;
  const Shape& weight = fused.weight.shape();
  Tensor cast_weight = fused.weight.dtype() == fused.logits_dtype
                           ? fused.weight
                           : torch::computed(eager, weight, fused.logits_dtype);
  Tensor cast_input;
  if (fused.input.dtype() != fused.logits_dtype) {
    cast_input = torch::computed(eager, {rows, weight[1]}, fused.logits_dtype);
  }
  Tensor logits = eager.empty({rows, weight[0]}, fused.logits_dtype);
  cast_input.reset();
  return logits;
}

void converted_gradients(Fused& fused, std::int64_t rows) {
  Eager& eager = fused.eager;
  const Shape part{rows, fused.weight.shape()[1]};
  {
    Tensor cast_weight = torch::autocast_argument(eager, fused.weight);
    const Tensor product = eager.empty(part, fused.logits_dtype);
    cast_weight.reset();
  }
  if (fused.grad_weight.defined() && fused.input.dtype() != fused.logits_dtype) {
    const Tensor narrow = torch::computed(eager, part, fused.logits_dtype);
  }
}

/// The weight's gradient accumulates in place; with fp32 logits only through a temporary of its
/// size.
void weight_gradient(Fused& fused) {
  if (fused.grad_weight.defined() && fused.logits_dtype == DType::kFp32) {
    const Tensor product = fused.eager.empty(fused.weight.shape(), DType::kFp32);
  }
}

void run_chunks(Fused& fused) {
  Eager& eager = fused.eager;
  const std::int64_t tokens = fused.input.shape()[0];
  const Shape& weight = fused.weight.shape();
  const std::int64_t factor = ceil_div(weight[0], weight[1]);
  const auto wanted = static_cast<std::uint64_t>(ceil_div(tokens, factor));
  const std::int64_t chunk = std::min(static_cast<std::int64_t>(std::bit_ceil(wanted)), tokens);
  Tensor storage;
  if (fused.in_place) {
    storage = eager.empty({chunk, weight[0]}, fused.logits_dtype);
  }
  for (std::int64_t start = 0; start < tokens; start += chunk) {
    const std::int64_t rows = std::min(chunk, tokens - start);
    count_products(fused, rows);
    if (fused.in_place) {
      weight_gradient(fused);
      continue;
    }
    const Tensor logits = converted_logits(fused, rows);
    converted_gradients(fused, rows);
    weight_gradient(fused);
  }
}

Gradients fused_gradients(Eager& eager, Node& node) {
  // torch.equal(grad_output, torch.tensor(1.0)) decides whether the gradients must be scaled, in
  // place.
  {
    const Tensor one = torch::computed(eager, {}, DType::kFp32);
    const Tensor same = torch::computed(eager, {}, DType::kBool);
    const Tensor all = torch::computed(eager, {}, DType::kBool);
  }
  Gradients result(2);
  for (std::size_t i = 0; i < node.saved.size(); ++i) {
    const Tensor saved = node.saved[i].unpack(eager);
    result[i] = eager.alias(saved, saved.shape(), false);
  }
  return result;
}

}  // namespace

Tensor fused_linear_loss(Eager& eager, const HeadInput& head, const Tensor& ids) {
  const Shape& shape = head.hidden.shape();
  const std::int64_t tokens = shape[0] * shape[1];
  const ShiftedLabels shifted = shift_labels(eager, ids);
  const Tensor input = torch::view(eager, head.hidden, {tokens, shape[2]});
  torch::Record record(eager, {&input, &head.weight});
  const DType wide =
      bits_of(input.dtype()) >= bits_of(head.weight.dtype()) ? input.dtype() : head.weight.dtype();
  Fused fused{.eager = eager,
              .input = input,
              .weight = head.weight,
              .logits_dtype = eager.autocast().value_or(wide),
              .in_place = false,
              .grad_input = {},
              .grad_weight = {}};
  fused.in_place = input.dtype() == head.weight.dtype() && input.dtype() == fused.logits_dtype;
  fused.grad_input = eager.empty(input.shape(), input.dtype());
  if (record.wants(1)) {
    fused.grad_weight = eager.empty(head.weight.shape(), head.weight.dtype());
  }
  Tensor losses = eager.empty({tokens}, DType::kFp32);
  LabelCount count = count_labels(eager, {tokens});
  count.count.reset();
  {
    const torch::GradMode grad(eager, false);
    run_chunks(fused);
  }
  Tensor loss = torch::reduce_all(eager, losses);
  if (record.active()) {
    record.save(fused.grad_input);
    record.save(fused.grad_weight);
    record.finish(loss, [](Eager& e, Gradients&, Node& node) -> Gradients {
      return fused_gradients(e, node);
    });
  }
  count.mask.reset();
  losses.reset();
  return loss;
}

}  // namespace headroom::ir::transformers
