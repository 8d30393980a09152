// Steps of a compiled block whose products have FP8 operands: backward.
#include <utility>

#include "runtimes/torchtitan/compiled_steps.h"

namespace headroom::ir::torchtitan {

/// The operand of a weight-gradient product that runs in the activations' type.
Id Steps::as_they_are(const std::vector<Id>& reads, std::int64_t width) {
  const bool there = reads.size() == 1 && graph.dtype(reads[0]) == sizes_.dtype;
  return there ? reads[0] : graph.kernel_of(reads, {sizes_.wide(width), sizes_.dtype, {}});
}

/// Products without fast accumulation do not support row-wise scales, so these are applied after
/// the product.
/// Source: pytorch/ao 0.17 torchao/float8/float8_ops.py, addmm_float8_unwrapped.
Id Steps::rescaled(Id product, const Eight& gradient, DType dtype) {
  return graph.kernel_of({product, gradient.factor}, {graph.shape(product), dtype, {product}});
}

/// A gradient [rows, width] for both products that read it, in e5m2 (with row-wise scales in e4m3).
Steps::Eight Steps::cast_gradient(std::vector<Id> reads, std::int64_t width) {
  if (by_rows()) {
    Eight made = turned_inputs(reads, width, 1)[0];
    Scale own;
    made.rows = cast_input(std::move(reads), {eight(sizes_.wide(width))}, own)[0];
    made.factor = own.factor;
    return made;
  }
  const Scale whole = largest_of(reads, sizes_.rows() * width);
  reads.push_back(whole.largest);
  const std::vector<Id> ids = graph.kernel(
      std::move(reads), {eight(sizes_.wide(width), true), eight({width, sizes_.rows()}, true)});
  return {.rows = ids[0], .turned = ids[1], .factor = whole.factor};
}

/// Computes a tensor from `reads` in e4m3, transposed for weight-gradient products, in `copies`
/// copies.
std::vector<Steps::Eight> Steps::turned_inputs(std::vector<Id> reads, std::int64_t width,
                                               std::size_t copies) {
  if (wide_gradients()) {
    return std::vector<Eight>(copies,
                              {.rows = 0, .turned = as_they_are(reads, width), .factor = 0});
  }
  const Scale whole = largest_of(reads, sizes_.rows() * width);
  reads.push_back(whole.largest);
  const std::vector<Id> ids =
      graph.kernel(std::move(reads), std::vector<Made>(copies, eight({width, sizes_.rows()})));
  std::vector<Eight> inputs;
  for (const Id id : ids) {
    inputs.push_back({.rows = 0, .turned = id, .factor = whole.factor});
  }
  return inputs;
}

Id Steps::input_gradient8(const Eight& gradient, Id weight, Cast cast) {
  const torch::Shape shape = graph.shape(weight);
  if (!by_rows()) {
    return product8({gradient.rows, weight, gradient.factor, factor_of(cast)},
                    sizes_.wide(shape[1]), shape[0]);
  }
  const bool narrow = wide_gradients() || cast == Cast::kWo;  // Attention reads its own type.
  return rescaled(product8({gradient.rows, weight}, sizes_.wide(shape[1]), shape[0]), gradient,
                  narrow ? sizes_.dtype : DType::kFp32);
}

Id Steps::weight_gradient8(const Eight& gradient, const Eight& input) {
  if (wide_gradients()) {
    return weight_gradient(gradient.turned, input.turned, graph.shape(input.turned)[-1],
                           graph.shape(gradient.turned)[-1]);
  }
  const std::int64_t out = graph.shape(gradient.turned)[0];
  const std::int64_t in = graph.shape(input.turned)[0];
  if (by_rows()) {
    return rescaled(product8({gradient.turned, input.turned}, {out, in}, sizes_.rows()), input,
                    sizes_.dtype);
  }
  return product8({gradient.turned, input.turned, gradient.factor, input.factor}, {out, in},
                  sizes_.rows());
}

/// An FP8 weight as forward reads it, and transposed.
Steps::Eight Steps::cast_weight_twice(Id weight, Cast cast) {
  if (sizes_.float8_weights) {
    return {.rows = weight, .turned = cast_weight(weight, cast, true), .factor = 0};
  }
  if (by_rows()) {
    const Id rows = cast_weight(weight, cast, false);
    return {.rows = rows, .turned = cast_weight(weight, cast, true), .factor = 0};
  }
  const Made made = eight(graph.shape(weight));
  const std::vector<Id> ids = graph.kernel({weight, scale(cast).largest}, {made, made});
  return {.rows = ids[0], .turned = ids[1], .factor = 0};
}

/// What a block with selective checkpointing by operators recomputes before the gates: the product
/// of `wo`, the second norm, and the product of `w3`.
void Steps::project_again8(Inputs8& inputs) {
  Id attended = 0;
  if (by_rows()) {
    inputs.attended = turned_inputs({values.attended}, sizes_.queries(), 1)[0];
    attended = cast_input({values.attended}, {eight(sizes_.wide(sizes_.queries()))},
                          scale(Cast::kAttended))[0];
  } else {
    const Scale again = largest_of({values.attended}, sizes_.rows() * sizes_.queries());
    const std::vector<Id> both = graph.kernel(
        {values.attended, scale(Cast::kAttended).largest, again.largest},
        {eight(sizes_.wide(sizes_.queries())), eight({sizes_.queries(), sizes_.rows()})});
    attended = both[0];
    inputs.attended = {.rows = 0, .turned = both[1], .factor = again.factor};
  }
  const Eight out = cast_weight_twice(weights.wo, Cast::kWo);
  inputs.wo = out.turned;
  values.projected =
      product8({attended, out.rows, factor_of(Cast::kAttended), factor_of(Cast::kWo)},
               sizes_.wide(sizes_.hidden), sizes_.queries());
  const std::vector<Id> normed =
      graph.kernel({values.x, values.projected, weights.norm2, known(Cast::kNormed2)},
                   {row_sums(), eight(sizes_.wide(sizes_.hidden))});
  values.rstd2 = normed[0];
  const Eight up = cast_weight_twice(weights.w3, Cast::kW3);
  values.w3_turned = up.turned;
  values.up = product8({normed[1], up.rows, factor_of(Cast::kNormed2), factor_of(Cast::kW3)},
                       sizes_.wide(sizes_.ffn), sizes_.hidden);
}

/// The gradients of both gates and the input of `w2`, in one kernel. Before it, another kernel
/// finds their scales or, with row-wise scales, computes the whole tensors.
Steps::Gates8 Steps::gates_backward8(Id product) {
  if (by_rows()) {
    const Made active{sizes_.wide(sizes_.ffn), sizes_.dtype, {}};
    const Made wide{sizes_.wide(sizes_.ffn), wide_gradients() ? sizes_.dtype : DType::kFp32, {}};
    const std::vector<Id> ids =
        graph.kernel({values.gate, values.up, product}, {active, wide, wide});
    return {.active = turned_inputs({ids[0]}, sizes_.ffn, 1)[0],
            .of_up = cast_gradient({ids[1]}, sizes_.ffn),
            .of_gate = cast_gradient({ids[2]}, sizes_.ffn)};
  }
  const Made parts{{sizes_.rows() * sizes_.ffn / kElementsOfPart + 1}, DType::kFp32, {}};
  std::vector<Id> reads = {values.gate, values.up, product};
  const std::vector<Id> largest = graph.kernel(reads, {parts, parts, parts});
  std::array<Scale, 3> scales;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = finish_scale(largest[i]);
    reads.push_back(scales[i].largest);
  }
  const Made rows = eight(sizes_.wide(sizes_.ffn), true);
  const Made turned = eight({sizes_.ffn, sizes_.rows()}, true);
  const std::vector<Id> ids = graph.kernel(
      std::move(reads), {eight({sizes_.ffn, sizes_.rows()}), rows, turned, rows, turned});
  return {.active = {.rows = 0, .turned = ids[0], .factor = scales[0].factor},
          .of_up = {.rows = ids[1], .turned = ids[2], .factor = scales[1].factor},
          .of_gate = {.rows = ids[3], .turned = ids[4], .factor = scales[2].factor}};
}

/// The gradients of a norm and of its weight.
Id Steps::norm_backward8(std::vector<Id> reads, Made made, Id& weight) {
  if (mixes_reductions(sizes_.rows(), sizes_.hidden)) {
    const std::vector<Id> ids =
        mix(std::move(reads), std::move(made), mixed_parts(sizes_.rows()), 1);
    weight = ids[1];
    return ids[0];
  }
  weight = graph.kernel_of(reads, partial_sum(sizes_.rows(), sizes_.hidden));
  return graph.kernel_of(std::move(reads), std::move(made));
}

/// Gradients of the second norm's weight, of the three weights of the feed-forward, and of the
/// inputs of w1 and w3. Returns the gradient of the tensors that the second norm and the residual
/// read.
Id Steps::feed_forward_backward8(Id tangent, Inputs8& inputs, std::vector<Id>& grads) {
  const Eight outer = cast_gradient({tangent}, sizes_.hidden);
  if (!keeps_turned_weights()) {
    values.w2_turned = cast_weight(weights.w2, Cast::kW2, true);
  }
  const Id product = input_gradient8(outer, values.w2_turned, Cast::kW2);
  if (memory_ == BlockMemory::kOperators) {
    project_again8(inputs);
  } else if (memory_ == BlockMemory::kInputs) {
    to_gates8(&inputs);
  }
  const Gates8 gates = gates_backward8(product);
  grads[9] = weight_gradient8(outer, gates.active);
  const bool late = memory_ != BlockMemory::kAll;  // The weights' gradients come after the norm's.
  if (memory_ != BlockMemory::kOperators && !keeps_turned_weights()) {
    values.w3_turned = cast_weight(weights.w3, Cast::kW3, true);
  }
  Inner inner;
  inner.up = input_gradient8(gates.of_up, values.w3_turned, Cast::kW3);
  const std::vector<Id> normed = {values.x, values.projected, values.rstd2, weights.norm2};
  std::vector<Eight> input;
  if (!late) {
    input = turned_inputs(normed, sizes_.hidden, 1);
    grads[8] = weight_gradient8(gates.of_up, input[0]);
  }
  if (!keeps_turned_weights()) {
    values.w1_turned = cast_weight(weights.w1, Cast::kW1, true);
  }
  inner.gate = input_gradient8(gates.of_gate, values.w1_turned, Cast::kW1);
  if (!late) {
    grads[7] = weight_gradient8(gates.of_gate, input[0]);
  }
  std::vector<Id> reads = normed;
  reads.insert(reads.end(), {inner.up, inner.gate, tangent});
  Id sum = 0;
  const Id residual = norm_backward8(std::move(reads), hidden(), sum);
  if (memory_ == BlockMemory::kOperators) {
    first_norm_again8(inputs);
  }
  if (late) {
    input = turned_inputs(normed, sizes_.hidden, 1);
    grads[8] = weight_gradient8(gates.of_up, input[0]);
    grads[7] = weight_gradient8(gates.of_gate, input[0]);
  }
  grads[6] = summed(sum, sizes_.hidden);
  return residual;
}

/// Recomputes the first norm, in FP8 for the product of `wk`.
void Steps::first_norm_again8(Inputs8& inputs) {
  const std::vector<Id> ids = graph.kernel({values.x, weights.norm1, known(Cast::kNormed1)},
                                           {row_sums(), eight(sizes_.wide(sizes_.hidden))});
  values.rstd1 = ids[0];
  inputs.normed1 = ids[1];
}

/// The gradients of attention's output and of the weight after it.
Id Steps::attended_backward8(Id residual, Inputs8& inputs, std::vector<Id>& grads) {
  const Eight gradient = cast_gradient({residual}, sizes_.hidden);
  const bool operators = memory_ == BlockMemory::kOperators;
  const Id weight = operators ? inputs.wo : cast_weight(weights.wo, Cast::kWo, true);
  const Id attended = input_gradient8(gradient, weight, Cast::kWo);
  if (memory_ == BlockMemory::kAll) {
    inputs.attended = turned_inputs({values.attended}, sizes_.queries(), 1)[0];
  }
  grads[5] = weight_gradient8(gradient, inputs.attended);
  return attended;
}

/// Gradients of the inputs and of the weights of the products for queries, keys and values.
std::array<Id, 3> Steps::heads_backward8(const std::array<Id, 3>& heads, const Inputs8& inputs,
                                         std::vector<Id>& grads) {
  struct Head {
    Id gradient;
    std::int64_t width;
    Id weight;
    Cast cast;
    std::size_t grad;
  };
  const std::array<Head, 3> order = {{{heads[2], sizes_.keys(), weights.wv, Cast::kWv, 4},
                                      {heads[1], sizes_.keys(), weights.wk, Cast::kWk, 3},
                                      {heads[0], sizes_.queries(), weights.wq, Cast::kWq, 2}}};
  const bool operators = memory_ == BlockMemory::kOperators;
  const bool late = memory_ != BlockMemory::kAll;
  std::array<Id, 3> made{};
  std::array<Eight, 3> gradients;
  std::vector<Eight> normed;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Head& head = order[i];
    gradients[i] = cast_gradient({head.gradient}, head.width);
    const bool again = operators && head.cast == Cast::kWk;
    const Id weight = again ? inputs.wk : cast_weight(head.weight, head.cast, true);
    made[i] = input_gradient8(gradients[i], weight, head.cast);
    if (late) {
      continue;
    }
    if (normed.empty()) {
      normed = turned_inputs({values.x, values.rstd1, weights.norm1}, sizes_.hidden, 3);
    }
    grads[head.grad] = weight_gradient8(gradients[i], normed[i]);
  }
  if (late) {
    heads_ = gradients;
  }
  return made;
}

std::vector<Id> Steps::backward_float8(Id tangent) {
  std::vector<Id> grads(sizes_.norms_heads ? 12 : 10);
  Inputs8 inputs;
  const Id residual = feed_forward_backward8(tangent, inputs, grads);
  const Id attended = attended_backward8(residual, inputs, grads);
  if (memory_ == BlockMemory::kOperators) {
    const Eight weight = cast_weight_twice(weights.wk, Cast::kWk);
    inputs.wk = weight.turned;
    values.k =
        product8({inputs.normed1, weight.rows, factor_of(Cast::kNormed1), factor_of(Cast::kWk)},
                 sizes_.wide(sizes_.keys()), sizes_.hidden);
    rotate_both(true);
  }
  std::array<Id, 3> heads = attend_backward(attended);
  if (sizes_.norms_heads) {
    heads[1] = rotated_back(heads[1], false);
    heads[0] = rotated_back(heads[0], true);
  } else {
    heads[1] = turned_look(heads[1], sizes_.keys(), true);
    heads[0] = turned_look(heads[0], sizes_.queries(), false);
  }
  const std::array<Id, 3> made = heads_backward8(heads, inputs, grads);
  finish_heads(grads);
  Made last = hidden();
  last.over = {residual};
  Id sum = 0;
  grads[1] =
      norm_backward8({residual, values.x, values.rstd1, weights.norm1, made[0], made[1], made[2]},
                     std::move(last), sum);
  if (memory_ != BlockMemory::kAll) {
    const std::vector<Eight> normed =
        turned_inputs({values.x, values.rstd1, weights.norm1}, sizes_.hidden, 3);
    for (std::size_t i = 0; i < normed.size(); ++i) {
      grads[4 - i] = weight_gradient8(heads_[i], normed[i]);
    }
  }
  grads[0] = summed(sum, sizes_.hidden);
  for (const Id gradient : grads) {
    graph.keep(gradient);
  }
  return grads;
}

}  // namespace headroom::ir::torchtitan
