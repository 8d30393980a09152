#include "runtimes/transformers/experts.h"

#include <initializer_list>
#include <utility>

#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/functions_indexed.h"
#include "runtimes/torch/functions_latent.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/transformers/norm.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::GroupedWeight;
using torch::Shape;
using torch::Tensor;

namespace {

/// Releases the local names of a Python function that returns, in the order of their first
/// assignment.
void leave(std::initializer_list<Tensor*> names) {
  for (Tensor* const name : names) {
    name->reset();
  }
}

/// Mixtral and Qwen: the chosen probabilities, divided by their sum if the model says so.
Routing route_softmax(Eager& eager, RouterForm form, const MoeSpec& moe, const RouterInput& input) {
  Routing routing;
  routing.weight = sum(eager, input.weight);
  routing.logits = torch::linear(eager, input.rows, routing.weight, {});
  Tensor probabilities;
  if (form == RouterForm::kSoftmaxFp32) {
    const Tensor wide = torch::to(eager, routing.logits, DType::kFp32);
    probabilities = torch::softmax_last(eager, wide, DType::kFp32);
  } else {
    probabilities = torch::softmax_last(eager, routing.logits, DType::kFp32);
  }
  auto [values, indices] = torch::top_k(eager, probabilities, moe.top_k);
  if (moe.normalise_top_k) {
    const Tensor sum = torch::sum_rows(eager, values);
    values = torch::divide_in_place(eager, values, sum);
  }
  if (form == RouterForm::kSoftmax) {
    values = torch::to(eager, values, routing.logits.dtype());
  }
  routing.weights = std::move(values);
  routing.indices = std::move(indices);
  return routing;
}

/// gpt-oss: softmax over the chosen logits.
Routing route_chosen(Eager& eager, const MoeSpec& moe, const RouterInput& input) {
  Routing routing;
  routing.weight = sum(eager, input.weight);
  routing.logits = torch::linear(eager, input.rows, routing.weight, input.bias);
  auto [values, indices] = torch::top_k(eager, routing.logits, moe.top_k);
  routing.weights = torch::softmax_last(eager, values, values.dtype());
  routing.indices = std::move(indices);
  values.reset();
  if (input.fourth) {
    routing.weights =
        torch::scatter_last(eager, routing.weights, routing.indices, routing.logits.shape()[-1]);
  }
  return routing;
}

/// F.linear(hidden_states.type(torch.float32), self.weight.type(torch.float32))
Tensor wide_logits(Eager& eager, const RouterInput& input, Routing& routing) {
  Tensor rows = torch::to(eager, input.rows, DType::kFp32);
  routing.weight = sum(eager, input.weight);
  Tensor weight = torch::to(eager, routing.weight, DType::kFp32);
  Tensor logits = torch::linear(eager, rows, weight, {});
  rows.reset();
  weight.reset();
  return logits;
}

/// The mask of each token's best groups, the indices from which it is made, and the mask per
/// expert.
struct GroupChoice {
  Tensor indices;
  Tensor mask;
  Tensor each;
};

/// Scores with those outside the chosen groups masked.
Tensor mask_groups(Eager& eager, const Tensor& scores, GroupChoice& choice) {
  choice.each = torch::computed(eager, scores.shape(), choice.mask.dtype());  // expand().reshape()
  Tensor masked;
  {
    Tensor outside;
    {
      const Tensor inside = torch::computed(eager, scores.shape(), DType::kBool);
      outside = torch::computed(eager, scores.shape(), DType::kBool);
    }
    masked = torch::masked_fill(eager, scores, outside);
  }
  return masked;
}

GroupChoice choose_groups(Eager& eager, const Tensor& group_scores, std::int64_t groups) {
  GroupChoice choice;
  choice.indices = torch::top_k(eager, group_scores, groups).indices;
  choice.mask = torch::computed(eager, group_scores.shape(), group_scores.dtype());
  return choice;
}

Shape grouped_shape(const Tensor& scores, const MoeSpec& moe) {
  return {scores.shape()[0], moe.groups, moe.experts / moe.groups};
}

/// DeepSeek-V2: the largest fp32 probabilities; if routing is limited, within the best groups.
Routing route_wide_softmax(Eager& eager, const MoeSpec& moe, const RouterInput& input) {
  Routing routing;
  routing.logits = wide_logits(eager, input, routing);
  Tensor scores = torch::softmax_last(eager, routing.logits, DType::kFp32);
  Tensor group_scores;
  GroupChoice choice;
  if (moe.groups > 1) {
    {
      const Tensor grouped = torch::view(eager, scores, grouped_shape(scores, moe));
      const Tensor best = torch::max_last(eager, grouped);
      group_scores = torch::view(eager, best, {scores.shape()[0], moe.groups});
    }
    choice = choose_groups(eager, group_scores, moe.top_groups);
    scores = mask_groups(eager, scores, choice);
  }
  auto [values, indices] = torch::top_k(eager, scores, moe.top_k);
  routing.weights = torch::scale(eager, values);
  routing.indices = std::move(indices);
  return routing;
}

/// Tensors that remain after corrected scores have chosen groups and experts.
struct CorrectedChoice {
  Tensor corrected, group_scores;
  GroupChoice choice;

  void clear() { leave({&corrected, &group_scores, &choice.indices, &choice.mask, &choice.each}); }
};

Tensor choose_corrected(Eager& eager, const MoeSpec& moe, const RouterInput& input,
                        const Tensor& scores, CorrectedChoice& names) {
  names.corrected = torch::add(eager, scores, input.correction);
  {
    constexpr std::int64_t kBestOfGroup = 2;
    const Tensor grouped = torch::view(eager, names.corrected, grouped_shape(names.corrected, moe));
    const Tensor best = torch::top_k(eager, grouped, kBestOfGroup).values;
    names.group_scores = torch::sum_last_dim(eager, best);
  }
  names.choice = choose_groups(eager, names.group_scores, moe.top_groups);
  names.corrected = mask_groups(eager, names.corrected, names.choice);
  return torch::top_k(eager, names.corrected, moe.top_k).indices;
}

/// DeepSeek-V3: sigmoid scores; corrected scores choose the groups and experts.
Routing route_wide_sigmoid(Eager& eager, const MoeSpec& moe, const RouterInput& input) {
  Routing routing;
  routing.logits = wide_logits(eager, input, routing);
  Tensor scores = torch::sigmoid(eager, routing.logits);
  CorrectedChoice names;
  {
    const torch::GradMode grad(eager, eager.grad_enabled() && !input.fourth);
    routing.indices = choose_corrected(eager, moe, input, scores, names);
  }
  if (input.fourth) {
    names.clear();
  }
  Tensor chosen = torch::gather_last(eager, scores, routing.indices);
  Tensor denominator;
  if (moe.normalise_top_k) {
    denominator = torch::sum_rows(eager, chosen);
    denominator = torch::shift(eager, denominator);
    chosen = torch::divide_in_place(eager, chosen, denominator);
  }
  routing.weights = torch::scale(eager, chosen);
  leave({&chosen, &scores});
  names.clear();
  denominator.reset();
  return routing;
}

}  // namespace

Routing route(Eager& eager, RouterForm form, const MoeSpec& moe, const RouterInput& input) {
  switch (form) {
    case RouterForm::kSoftmaxFp32:
    case RouterForm::kSoftmax:
      return route_softmax(eager, form, moe, input);
    case RouterForm::kSoftmaxOfChosen:
      return route_chosen(eager, moe, input);
    case RouterForm::kWideSoftmax:
      return route_wide_softmax(eager, moe, input);
    case RouterForm::kWideSigmoid:
      return route_wide_sigmoid(eager, moe, input);
  }
  return {};
}

namespace {

/// `_default_apply_gate`: act(gate) * up.
Tensor gate_halves(Eager& eager, Activation kind, const Tensor& fused) {
  const auto [gate, up] = torch::chunk_last(eager, fused);
  const Tensor activated = activation(eager, kind, gate);
  return torch::mul(eager, activated, up);
}

/// gpt-oss: clamped even columns times their sigmoid, times (clamped odd columns plus one).
Tensor gate_interleaved(Eager& eager, const Tensor& fused) {
  const std::int64_t width = fused.shape()[-1] / 2;
  Tensor gate = torch::slice_last(eager, fused, width);
  Tensor up = torch::slice_last(eager, fused, width);
  gate = torch::clamp(eager, gate, torch::ClampBounds::kUpper);
  up = torch::clamp(eager, up, torch::ClampBounds::kBoth);
  Tensor swish;
  {
    Tensor squashed = torch::scale(eager, gate);
    squashed = torch::sigmoid(eager, squashed);
    swish = torch::mul(eager, gate, squashed);
  }
  const Tensor shifted = torch::shift(eager, up);
  return torch::mul(eager, shifted, swish);
}

Tensor apply_gate(Eager& eager, const ExpertsInput& input, const Tensor& fused) {
  if (input.gate == ExpertGate::kInterleavedClamped) {
    return gate_interleaved(eager, fused);
  }
  return gate_halves(eager, input.activation, fused);
}

/// One product of all rows with their experts' weights, plus the biases of those experts.
Tensor grouped_linear(Eager& eager, const Tensor& rows, const Tensor& weight, const Tensor& bias,
                      const Tensor& offsets) {
  const Tensor narrow = torch::to(eager, rows, weight.dtype());
  const GroupedWeight layout = bias.defined() ? GroupedWeight::kInOut : GroupedWeight::kOutIn;
  Tensor product = torch::grouped_mm(eager, narrow, weight, offsets, layout);
  return bias.defined() ? torch::add_in_place(eager, product, bias) : product;
}

/// Tokens per expert, and the ends of the experts' rows.
struct Groups {
  Tensor narrow_ids;
  Tensor counts;
  Tensor offsets;
};

Groups count_groups(Eager& eager, const Tensor& ids, std::int64_t experts) {
  Groups groups;
  groups.narrow_ids = torch::to(eager, ids, DType::kInt32);
  groups.counts = torch::filled(eager, {experts}, DType::kInt32);  // histc
  torch::launch_fill(eager, groups.narrow_ids);
  groups.offsets = torch::cumulative_counts(eager, groups.counts);
  return groups;
}

/// inv_perm[perm] = arange(S)
Tensor inverse(Eager& eager, const Tensor& permutation) {
  Tensor result = torch::computed(eager, permutation.shape(), DType::kInt64);
  const Tensor range = torch::computed(eager, permutation.shape(), DType::kInt64);
  return result;
}

}  // namespace

namespace {

/// The names of grouped_mm_experts_forward.
struct ExpertsFrame {
  Tensor ids, permutation, rows, weights;
  Groups groups;
  Tensor mask, bias, product, weighted, back, summed;
  Tensor gate_up, down;  ///< Adapted weights, which PEFT holds until the experts return.

  /// In the order of their first assignment.
  void clear() {
    leave({&ids, &permutation, &rows, &weights, &groups.narrow_ids, &groups.counts, &groups.offsets,
           &mask, &bias, &product, &weighted, &back, &summed, &gate_up, &down});
  }
};

/// Rows of the chosen tokens and their weights, sorted by expert.
void sort_by_expert(Eager& eager, const ExpertsInput& input, ExpertsFrame& frame) {
  const std::int64_t selected = input.indices.elements();
  const Tensor flat = torch::view(eager, input.weights, {selected});
  torch::Sorted sorted = torch::sort_ids(eager, input.indices);
  frame.ids = std::move(sorted.values);
  frame.permutation = std::move(sorted.indices);
  {
    const Tensor tokens = torch::computed(eager, {selected}, DType::kInt64);  // perm // k
    frame.rows = torch::gather_rows(eager, input.rows, tokens);
  }
  frame.weights = torch::gather_rows(eager, flat, frame.permutation);
  frame.groups = count_groups(eager, frame.ids, input.gate_up.base.shape()[0]);
  frame.mask = torch::computed(eager, {selected, 1}, DType::kBool);
  torch::launch_fill(eager, frame.ids);  // clamp_
}

void choose_bias(Eager& eager, const Tensor& biases, ExpertsFrame& frame) {
  Tensor chosen;
  if (biases.defined()) {
    chosen = torch::gather_rows(eager, biases, frame.ids);
  }
  frame.bias = std::move(chosen);
}

void run_projections(Eager& eager, const ExpertsInput& input, ExpertsFrame& frame) {
  frame.gate_up = fold(eager, input.gate_up);
  choose_bias(eager, input.gate_up_bias, frame);
  frame.rows = torch::masked_fill_in_place(eager, frame.rows, frame.mask);
  frame.product =
      grouped_linear(eager, frame.rows, frame.gate_up, frame.bias, frame.groups.offsets);
  frame.product = torch::masked_fill(eager, frame.product, frame.mask);
  frame.product = apply_gate(eager, input, frame.product);
  frame.down = fold(eager, input.down);
  choose_bias(eager, input.down_bias, frame);
  frame.product =
      grouped_linear(eager, frame.product, frame.down, frame.bias, frame.groups.offsets);
  frame.product = torch::masked_fill(eager, frame.product, frame.mask);
}

/// Multiplies the rows by their weights, restores the order of the tokens and sums each token's
/// rows.
Tensor combine(Eager& eager, const ExpertsInput& input, ExpertsFrame& frame) {
  {
    const Tensor column = torch::view(eager, frame.weights, {frame.weights.elements(), 1});
    frame.weighted = torch::mul(eager, frame.product, column);
  }
  frame.back = inverse(eager, frame.permutation);
  frame.weighted = torch::gather_rows(eager, frame.weighted, frame.back);
  frame.summed = torch::sum_groups(eager, frame.weighted, input.indices.shape()[-1]);
  return torch::to(eager, frame.summed, input.rows.dtype());
}

}  // namespace

Tensor run_experts(Eager& eager, const ExpertsInput& input) {
  ExpertsFrame frame;
  try {
    sort_by_expert(eager, input, frame);
    run_projections(eager, input, frame);
    Tensor output = combine(eager, input, frame);
    frame.clear();
    return output;
  } catch (const torch::StopRecomputation&) {
    frame.clear();  // A recomputation that has all it needs unwinds frame by frame.
    throw;
  }
}

namespace {

/// The products of rows [S, in] with one weight per row [S, out, in].
Tensor batched_linear(Eager& eager, const Tensor& rows, const Tensor& weights) {
  const std::int64_t selected = rows.shape()[0];
  const std::int64_t out = weights.shape()[1];
  Tensor product = eager.empty({selected, out}, rows.dtype());
  eager.touch_cublas();
  eager.run(
      GemmShape{.m = out, .n = 1, .k = rows.shape()[-1], .count = selected, .dtype = rows.dtype()});
  return product;
}

}  // namespace

Tensor run_chosen_experts(Eager& eager, const ExpertsInput& input) {
  const std::int64_t selected = input.indices.elements();
  const std::int64_t width = input.rows.shape()[-1];
  Tensor rows = torch::computed(eager, {selected, width}, input.rows.dtype());
  const Tensor column = torch::view(eager, input.weights, {selected, 1});
  Tensor ids = torch::computed(eager, {selected}, DType::kInt64);  // Clamped.
  Tensor chosen = torch::gather_rows(eager, input.gate_up.base, ids);
  Tensor product = batched_linear(eager, rows, chosen);
  product = apply_gate(eager, input, product);
  chosen = torch::gather_rows(eager, input.down.base, ids);
  product = batched_linear(eager, product, chosen);
  Tensor weighted = torch::mul(eager, product, column);
  Tensor summed = torch::sum_groups(eager, weighted, input.indices.shape()[-1]);
  Tensor output = torch::to(eager, summed, input.rows.dtype());
  leave({&rows, &ids, &chosen, &product, &weighted, &summed});
  return output;
}

}  // namespace headroom::ir::transformers
