#include "runtimes/torch/functions_latent.h"

#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::torch {

Tensor expand_heads(Eager& eager, const Tensor& input, std::int64_t heads) {
  Record record(eager, {&input});
  Tensor output = eager.alias(input, input.shape().with(1, heads), true);
  record.finish(output, [heads](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const Shape& shape = node.input_shapes[0];
    return {reduce(e, shape, grads[0].dtype(),
                   {.outputs = shape.elements(),
                    .inputs_per_output = heads,
                    .element_bytes = bits_of(grads[0].dtype()) / 8})};
  });
  return output;
}

namespace {

/// The gradient of the whole tensor and, separately, of the slice that was copied into it.
struct SliceGradients {
  SliceGradients(Eager& eager, const Tensor& gradient, const Shape& part)
      : whole(computed(eager, gradient.shape(), gradient.dtype(), {&gradient})),
        slice(computed(eager, part, gradient.dtype())) {
    launch_fill(eager, slice);  // Zeros where the slice was.
  }
  Tensor whole, slice;
};

}  // namespace

Tensor copy_side_by_side(Eager& eager, const Tensor& first, const Tensor& second) {
  const Shape& left = first.shape();
  const Shape& right = second.shape();
  Tensor begun = eager.empty(left.with(-1, left[-1] + right[-1]), first.dtype());
  {
    Record record(eager, {&first});
    launch(eager, {&first, &first});
    Tensor filled = eager.alias(begun, begun.shape(), false);
    record.finish(filled, [left](Eager& e, Gradients& grads, Node&) -> Gradients {
      SliceGradients made(e, grads[0], left);
      return {std::move(made.slice)};
    });
    begun = std::move(filled);
  }
  Record record(eager, {&begun, &second});
  launch(eager, {&second, &second});
  Tensor output = eager.alias(begun, begun.shape(), false);
  record.finish(output, [right](Eager& e, Gradients& grads, Node& node) -> Gradients {
    SliceGradients made(e, grads[0], right);
    Tensor zeros;  // For the previous content, which is overwritten.
    if (node.wants(0)) {
      zeros = torch::filled(e, right, grads[0].dtype());
    }
    if (node.input_dtypes[1] != grads[0].dtype()) {
      made.slice = computed(e, right, node.input_dtypes[1]);
    }
    return {std::move(made.whole), std::move(made.slice)};
  });
  return output;
}

Tensor complex_mul(Eager& eager, const Tensor& input, const Tensor& table) {
  Record record(eager, {&input});
  record.save(table);
  Tensor output = computed(eager, input.shape(), input.dtype(), {&input, &table});
  output->layout = input->layout;
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const Tensor saved = node.saved[0].unpack(e);
    const Shape shape = grads[0].shape();
    // view_as_real's backward needs a contiguous gradient.
    Tensor rows;
    if (grads[0]->layout == Layout::kSwapped && shape[1] > 1 && shape[2] > 1) {
      rows = computed(e, shape, grads[0].dtype(), {&grads[0]});
      grads.clear();
    }
    const Tensor conjugate = computed(e, saved.shape(), saved.dtype(), {&saved});
    return {computed(e, shape, node.input_dtypes[0])};
  });
  return output;
}

Tensor append_sinks(Eager& eager, const Tensor& scores, const Tensor& sinks) {
  Record record(eager, {&scores, &sinks});
  const Shape& shape = scores.shape();
  Tensor output = computed(eager, shape.with(-1, shape[-1] + 1), scores.dtype(), {&scores});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const Shape& all = grads[0].shape();
    Gradients result(2);
    result[0] = e.alias(grads[0], node.input_shapes[0], true);
    if (node.wants(1)) {
      result[1] = reduce(e, node.input_shapes[1], grads[0].dtype(),
                         {.outputs = all[1],
                          .inputs_per_output = all[0] * all[2],
                          .innermost = true,
                          .element_bytes = bits_of(grads[0].dtype()) / 8});
    }
    return result;
  });
  return output;
}

Tensor max_last(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  const Shape rows = input.shape().with(-1, 1);
  Tensor values = eager.empty(rows, input.dtype());
  const Tensor indices = eager.empty(rows, DType::kInt64);
  launch(eager, {&input});
  record.save(indices);
  record.finish(values, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const Tensor saved = node.saved[0].unpack(e);
    Tensor gradient = filled(e, node.input_shapes[0], grads[0].dtype());
    launch(e, {&grads[0], &grads[0]});
    return {std::move(gradient)};
  });
  return values;
}

Tensor clamp(Eager& eager, const Tensor& input, ClampBounds bounds) {
  Record record(eager, {&input});
  record.save(input);
  Tensor output = computed(eager, input.shape(), input.dtype(), {&input});
  record.finish(output, [bounds](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const Tensor saved = node.saved[0].unpack(e);
    const Shape& shape = grads[0].shape();
    // where(mask, grad, 0); the masks of both bounds are combined in place.
    const Tensor zero = filled(e, {}, grads[0].dtype());
    const Tensor below = computed(e, shape, DType::kBool, {&saved});
    const Tensor above =
        bounds == ClampBounds::kBoth ? computed(e, shape, DType::kBool, {&saved}) : Tensor{};
    return {computed(e, shape, grads[0].dtype(), {&grads[0], &below})};
  });
  return output;
}

}  // namespace headroom::ir::torch
