// Steps of a compiled block whose products have FP8 operands: forward, and casts.
#include <algorithm>
#include <utility>

#include "runtimes/torchtitan/compiled_steps.h"

namespace headroom::ir::torchtitan {

using torch::Shape;

namespace {

/// Number of partial maxima in which a compiled maximum over a whole tensor is first computed. They
/// are too small to show in a peak.
constexpr std::int64_t kMostParts = 1024;

}  // namespace

Made Steps::eight(const Shape& shape, bool wide) const {
  return {shape, DType::kFp8, {}, false, wide};
}

/// Computes the absolute maximum (amax) from partial maxima, and the reciprocal of the scale.
Scale Steps::finish_scale(Id parts) {
  const std::vector<Id> ids =
      graph.kernel({parts}, {{{}, sizes_.dtype, {}}, {{}, DType::kFp32, {}}});
  return {.largest = ids[0], .factor = ids[1]};
}

/// tensor_to_amax and amax_to_scale of the tensor that a kernel computes from `reads`.
Scale Steps::largest_of(std::vector<Id> reads, std::int64_t elements) {
  const std::int64_t parts = std::clamp<std::int64_t>(elements / kElementsOfPart, 1, kMostParts);
  return finish_scale(graph.kernel_of(std::move(reads), {{parts}, DType::kFp32, {}}));
}

/// Computes a tensor from `reads` in FP8. With one scale per tensor, a pass before it finds the
/// scale. With row-wise scales, it is one kernel.
std::vector<Id> Steps::cast_input(std::vector<Id> reads, std::vector<Made> made, Scale& scale) {
  if (!by_rows()) {
    if (scale.largest == Scale::kNone) {
      scale = largest_of(reads, made.front().shape.elements());
    }
    reads.push_back(scale.largest);
    return graph.kernel(std::move(reads), std::move(made));
  }
  const Shape& shape = made.front().shape;
  made.push_back({{shape.elements() / shape[-1]}, DType::kFp32, {}});
  std::vector<Id> ids = graph.kernel(std::move(reads), std::move(made));
  scale.factor = ids.back();
  ids.pop_back();
  return ids;
}

/// The reciprocal of the scale, which is recomputed if it was not kept.
Id Steps::factor_of(Cast cast) {
  Scale& at = scale(cast);
  if (at.factor == Scale::kNone) {
    std::vector<Id> reads;
    if (at.largest != Scale::kNone) {
      reads.push_back(at.largest);
    }
    at.factor = graph.kernel_of(std::move(reads), {{}, DType::kFp32, {}});
  }
  return at.factor;
}

/// Casts a weight [out, in] to FP8; `turned`: transposed for the products of backward. A weight
/// that is gathered in FP8 is returned as it is.
Id Steps::cast_weight(Id weight, Cast cast, bool turned) {
  if (sizes_.float8_weights && !turned) {
    static_cast<void>(factor_of(cast));
    return weight;
  }
  const Made made = eight(graph.shape(weight));
  if (sizes_.float8_weights) {
    return graph.kernel_of({weight}, made);
  }
  if (by_rows() && turned) {  // Its scales differ from forward's.
    const Scale other = largest_of({weight}, graph.shape(weight).elements());
    return graph.kernel_of({weight, other.largest}, made);
  }
  return cast_input({weight}, {made}, scale(cast))[0];
}

/// torch._scaled_mm, both of whose operands are contiguous along the inner dimension.
Id Steps::product8(const std::vector<Id>& reads, const Shape& shape, std::int64_t depth) {
  const std::int64_t width = shape[-1];
  return graph.product(
      reads, shape, {.m = shape.elements() / width, .n = width, .k = depth, .dtype = DType::kFp8});
}

Id Steps::columns8(Id input, Cast in, Id weight, Cast cast) {
  const Shape shape = graph.shape(weight);
  const Id cast_one = cast_weight(weight, cast, false);
  return product8({input, cast_one, factor_of(in), factor_of(cast)}, sizes_.wide(shape[0]),
                  shape[1]);
}

/// A norm's 1/rms and its output in FP8. With row-wise scales, this is one kernel.
std::vector<Id> Steps::norm8(std::vector<Id> reads, std::vector<Made> made, Cast cast, Id& rstd) {
  if (by_rows()) {
    const std::size_t copies = made.size();
    made.insert(made.end(), {row_sums(), row_sums()});
    std::vector<Id> ids = graph.kernel(std::move(reads), std::move(made));
    scale(cast).factor = ids[copies];
    rstd = ids[copies + 1];
    ids.resize(copies);
    return ids;
  }
  const std::vector<Id> ids = graph.kernel(reads, {row_sums(), row_sums()});
  rstd = ids[0];
  scale(cast) = finish_scale(ids[1]);
  reads.insert(reads.end(), {rstd, scale(cast).largest});
  return graph.kernel(std::move(reads), std::move(made));
}

/// The first norm and the products that read it.
void Steps::norm_and_project8() {
  const Made input = eight(sizes_.wide(sizes_.hidden));
  const std::vector<Id> inputs =
      norm8({values.x, weights.norm1}, {input, input, input}, Cast::kNormed1, values.rstd1);
  values.q = columns8(inputs[0], Cast::kNormed1, weights.wq, Cast::kWq);
  values.k = columns8(inputs[1], Cast::kNormed1, weights.wk, Cast::kWk);
  values.v = columns8(inputs[2], Cast::kNormed1, weights.wv, Cast::kWv);
}

/// The product of `wo`. `again`: set in backward; it receives the transposed input of the product.
void Steps::project_attended8(Inputs8* again) {
  std::vector<Id> reads = {values.attended};
  std::vector<Made> made = {eight(sizes_.wide(sizes_.queries()))};
  if (again != nullptr && by_rows()) {
    again->attended = turned_inputs(reads, sizes_.queries(), 1)[0];
  } else if (again != nullptr) {
    scale(Cast::kAttended) = largest_of(reads, made[0].shape.elements());
    const Scale whole = largest_of(reads, made[0].shape.elements());
    again->attended.factor = whole.factor;
    reads.push_back(whole.largest);
    made.push_back(eight({sizes_.queries(), sizes_.rows()}));
  }
  const std::vector<Id> inputs =
      cast_input(std::move(reads), std::move(made), scale(Cast::kAttended));
  if (inputs.size() > 1) {
    again->attended.turned = inputs[1];
  }
  values.projected = columns8(inputs[0], Cast::kAttended, weights.wo, Cast::kWo);
}

/// Everything up to the products of `w1` and `w3`.
void Steps::to_gates8(Inputs8* again) {
  norm_and_project8();
  rotate_both(again != nullptr || memory_ == BlockMemory::kAll);
  attend();
  project_attended8(again);
  const Made input = eight(sizes_.wide(sizes_.hidden));
  const std::vector<Id> normed =
      norm8({values.x, values.projected, weights.norm2},
            std::vector<Made>(by_rows() ? 2 : 1, input), Cast::kNormed2, values.rstd2);
  values.gate = columns8(normed.front(), Cast::kNormed2, weights.w1, Cast::kW1);
  values.up = columns8(normed.back(), Cast::kNormed2, weights.w3, Cast::kW3);
}

Id Steps::forward_float8() {
  to_gates8(nullptr);
  Scale of_active;
  const Id active =
      cast_input({values.gate, values.up}, {eight(sizes_.wide(sizes_.ffn))}, of_active)[0];
  const Id weight = cast_weight(weights.w2, Cast::kW2, false);
  const Id down = product8({active, weight, of_active.factor, factor_of(Cast::kW2)},
                           sizes_.wide(sizes_.hidden), sizes_.ffn);
  Made sum = hidden();
  sum.over = {values.projected, down};
  const Id output = graph.kernel_of({values.x, values.projected, down}, sum);
  graph.keep(output);
  if (memory_ == BlockMemory::kOperators) {
    values.q = values.q_product;  // The product itself is kept.
  }
  if (keeps_turned_weights()) {
    values.w2_turned = cast_weight(weights.w2, Cast::kW2, true);
    values.w3_turned = cast_weight(weights.w3, Cast::kW3, true);
    values.w1_turned = cast_weight(weights.w1, Cast::kW1, true);
  }
  return output;
}

/// Without checkpointing, weights that are gathered in FP8 are transposed for backward at once.
bool Steps::keeps_turned_weights() const {
  return sizes_.float8_weights && memory_ == BlockMemory::kAll;
}

/// The scales that forward keeps for backward. These are the scales of weights. With selective
/// checkpointing by operators, they are every absolute maximum (aten.max is on the list) and the
/// reciprocals for products that are not recomputed.
void Steps::keep_scales(std::vector<Id*>& kept) {
  if (memory_ == BlockMemory::kInputs) {
    return;
  }
  if (by_rows()) {  // Backward casts weights with other row-wise scales.
    if (memory_ == BlockMemory::kOperators) {
      kept.insert(kept.end(), {&scale(Cast::kNormed1).factor, &scale(Cast::kNormed2).factor});
    }
    return;
  }
  constexpr std::array<Cast, 7> kWeights = {Cast::kWq, Cast::kWk, Cast::kWv, Cast::kWo,
                                            Cast::kW1, Cast::kW3, Cast::kW2};
  if (!sizes_.float8_weights) {
    for (const Cast cast : kWeights) {
      kept.push_back(&scale(cast).largest);
    }
  }
  if (memory_ == BlockMemory::kAll) {
    for (const Cast cast : kWeights) {
      kept.push_back(&scale(cast).factor);
    }
    if (keeps_turned_weights()) {
      kept.insert(kept.end(), {&values.w1_turned, &values.w3_turned, &values.w2_turned});
    }
    return;
  }
  for (const Cast cast : {Cast::kNormed1, Cast::kAttended, Cast::kNormed2}) {
    kept.push_back(&scale(cast).largest);
  }
  for (const Cast cast :
       {Cast::kNormed1, Cast::kWq, Cast::kWv, Cast::kNormed2, Cast::kW1, Cast::kW2}) {
    kept.push_back(&scale(cast).factor);
  }
}

}  // namespace headroom::ir::torchtitan
