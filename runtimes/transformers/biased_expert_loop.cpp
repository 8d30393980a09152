#include <utility>

#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/functions_indexed.h"
#include "runtimes/torch/functions_latent.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/reduce.h"
#include "runtimes/transformers/expert_loop.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

/// The names of GptOssExperts.forward inside its loop.
struct BiasedFrame {
  Tensor mask, hit;
  Found found;  ///< _, token_idx
  Tensor state, gate_up, gate, up, glu, gated, out, weighted;

  /// In the order of their first assignment.
  void clear() {
    for (Tensor* const name : {&mask, &hit, &found.first, &found.second, &state, &gate_up, &gate,
                               &up, &glu, &gated, &out, &weighted}) {
      name->reset();
    }
  }
};

/// rows @ weight[expert] + bias[expert]
Tensor biased_product(Eager& eager, const Tensor& rows, const Tensor& weight, const Tensor& bias) {
  const Tensor matrix = torch::select_first(eager, weight);
  const Tensor product = torch::conv1d(eager, rows, matrix, {});
  const Tensor shift = torch::select_first(eager, bias);
  return torch::add(eager, product, shift);
}

/// Clamped even columns times their sigmoid, times (clamped odd columns plus one).
void gate_columns(Eager& eager, BiasedFrame& frame) {
  const std::int64_t width = frame.gate_up.shape()[-1] / 2;
  frame.gate = torch::slice_last(eager, frame.gate_up, width);
  frame.up = torch::slice_last(eager, frame.gate_up, width);
  frame.gate = torch::clamp(eager, frame.gate, torch::ClampBounds::kUpper);
  frame.up = torch::clamp(eager, frame.up, torch::ClampBounds::kBoth);
  {
    Tensor scaled = torch::scale(eager, frame.gate);
    const Tensor squashed = torch::sigmoid(eager, scaled);
    scaled.reset();
    frame.glu = torch::mul(eager, frame.gate, squashed);
  }
  const Tensor shifted = torch::shift(eager, frame.up);
  frame.gated = torch::mul(eager, shifted, frame.glu);
}

Tensor add_biased_expert(Eager& eager, const BiasedExpertsInput& input, std::int64_t tokens,
                         BiasedFrame& frame, const Tensor& output) {
  const Shape& chosen = input.indices.shape();
  if (input.spare_class) {  // if expert_idx == num_experts
    const Tensor equal = torch::computed(eager, {}, DType::kBool);
  }
  {
    Found found = where(eager, {chosen[1], chosen[0]}, tokens);
    frame.found.first = std::move(found.first);
    frame.found.second = std::move(found.second);
  }
  frame.state = torch::gather_rows(eager, input.rows, frame.found.second);
  frame.gate_up = biased_product(eager, frame.state, input.gate_up, input.gate_up_bias);
  gate_columns(eager, frame);
  frame.out = biased_product(eager, frame.gated, input.down, input.down_bias);
  {
    const Tensor column = torch::select_column(eager, input.weights);
    Tensor factor = torch::gather_rows(eager, column, frame.found.second);
    Tensor weighted = torch::mul(eager, frame.out, factor);
    factor.reset();
    frame.weighted = std::move(weighted);
  }
  const Tensor cast = torch::to(eager, frame.weighted, input.rows.dtype());
  return torch::add_rows_in_place(eager, output, frame.found.second, cast);
}

}  // namespace

Tensor run_biased_loop(Eager& eager, const BiasedExpertsInput& input) {
  const std::int64_t experts = input.weights.shape()[-1];
  const std::int64_t classes = experts + (input.spare_class ? 1 : 0);
  const std::int64_t selected = input.indices.elements();
  BiasedFrame frame;
  try {
    Tensor output = torch::filled(eager, input.rows.shape(), input.rows.dtype());
    frame.mask = torch::one_hot(eager, input.indices, classes);
    frame.hit = find_hit(eager, classes, selected, experts);
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      output = add_biased_expert(eager, input, tokens_of(expert, selected, experts), frame, output);
    }
    frame.clear();
    return output;
  } catch (const torch::StopRecomputation&) {
    frame.clear();
    throw;
  }
}

namespace {

/// torch.bmm of [E, T, in] and [E, in, out].
Tensor batched_product(Eager& eager, const Tensor& rows, const Tensor& weight) {
  const Shape& left = rows.shape();
  const std::int64_t out = weight.shape()[-1];
  Tensor product = eager.empty({left[0], left[1], out}, rows.dtype());
  eager.touch_cublas();
  eager.run(
      GemmShape{.m = left[1], .n = out, .k = left[2], .count = left[0], .dtype = rows.dtype()});
  return product;
}

/// A new tensor of the same shape and type: with biases added or weights applied.
Tensor changed(Eager& eager, const Tensor& input, const Tensor& by) {
  return torch::computed(eager, input.shape(), input.dtype(), {&input, &by});
}

}  // namespace

Tensor run_biased_batch(Eager& eager, const BiasedExpertsInput& input) {
  const Shape& rows = input.rows.shape();
  const std::int64_t experts = input.gate_up.shape()[0];
  BiasedFrame frame;
  frame.state = torch::computed(eager, {experts, rows[0], rows[1]}, input.rows.dtype());  // repeat
  {
    const Tensor product = batched_product(eager, frame.state, input.gate_up);
    frame.gate_up = changed(eager, product, input.gate_up_bias);
  }
  gate_columns(eager, frame);
  Tensor next = batched_product(eager, frame.gated, input.down);
  frame.gated.reset();  // Has no name here.
  next = changed(eager, next, input.down_bias);
  next = changed(eager, next, input.weights);
  Tensor output = torch::reduce(eager, rows, next.dtype(),
                                {.outputs = rows.elements(),
                                 .inputs_per_output = experts,
                                 .element_bytes = bits_of(next.dtype()) / 8});
  next.reset();
  frame.clear();
  return output;
}

}  // namespace headroom::ir::transformers
