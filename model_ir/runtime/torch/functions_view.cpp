#include <array>

#include "model_ir/base/check.h"
#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::torch {
namespace {

/// Whether bringing [B, A, S, D] with this layout to [B, S, A*D] needs a copy.
bool merge_copies(const Tensor& heads) {
  const Shape& shape = heads.shape();
  return heads->layout == Layout::kContiguous && shape[1] > 1 && shape[2] > 1;
}

Gradients reshape_gradient(Eager& eager, const Tensor& gradient, const Shape& shape) {
  if (gradient.shape().rank() == 4 && shape.rank() == 3 && merge_copies(gradient) &&
      shape[1] == gradient.shape()[2]) {
    return {eager.empty(shape, gradient.dtype())};
  }
  return {eager.alias(gradient, shape, true)};
}

}  // namespace

Tensor view(Eager& eager, const Tensor& input, const Shape& seen_as) {
  HEADROOM_ASSERT(seen_as.elements() == input.elements());
  Record record(eager, {&input});
  Tensor output = eager.alias(input, seen_as, true);
  if (record.active()) {
    record.finish(output, [before = input.shape()](Eager& e, Gradients& grads, Node&) -> Gradients {
      const Shape& shape = grads[0].shape();
      const bool copies = grads[0]->layout == Layout::kSwapped && shape[1] > 1 && shape[2] > 1;
      return {copies ? e.empty(before, grads[0].dtype()) : e.alias(grads[0], before, true)};
    });
  }
  return output;
}

Tensor split_heads(Eager& eager, const Tensor& input, std::int64_t heads) {
  const Shape& shape = input.shape();
  Record record(eager, {&input});
  Tensor output = eager.alias(input, Shape{shape[0], heads, shape[1], shape[2] / heads}, true);
  output->layout = Layout::kSwapped;
  if (record.active()) {
    record.finish(output, [shape](Eager& e, Gradients& grads, Node&) -> Gradients {
      return reshape_gradient(e, grads[0], shape);
    });
  }
  return output;
}

Tensor transpose_heads(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  Record record(eager, {&input});
  Tensor output = eager.alias(input, Shape{shape[0], shape[2], shape[1], shape[3]}, true);
  output->layout = Layout::kSwapped;
  if (record.active()) {
    record.finish(output, [shape](Eager& e, Gradients& grads, Node&) -> Gradients {
      Tensor gradient = e.alias(grads[0], shape, true);
      gradient->layout =
          grads[0]->layout == Layout::kSwapped ? Layout::kContiguous : Layout::kSwapped;
      return {gradient};
    });
  }
  return output;
}

Tensor merge_heads(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  const Shape merged{shape[0], shape[2], shape[1] * shape[3]};
  Record record(eager, {&input});
  Tensor output =
      merge_copies(input) ? eager.empty(merged, input.dtype()) : eager.alias(input, merged, true);
  if (record.active()) {
    record.finish(output, [shape](Eager& e, Gradients& grads, Node&) -> Gradients {
      Tensor gradient = e.alias(grads[0], shape, true);
      gradient->layout = Layout::kSwapped;
      return {gradient};
    });
  }
  return output;
}

Tensor slice_last(Eager& eager, const Tensor& input, std::int64_t size) {
  if (size == input.shape()[-1]) {
    return input;  // x[..., :n] of the whole is no operator.
  }
  Record record(eager, {&input});
  Tensor output = eager.alias(input, input.shape().with(-1, size), true);
  output->layout = input->layout;
  if (record.active()) {
    record.finish(output, [whole = input.shape()](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {e.empty(whole, grads[0].dtype())};
    });
  }
  return output;
}

std::vector<Tensor> split_last(Eager& eager, const Tensor& input,
                               std::span<const std::int64_t> sizes) {
  Record record(eager, {&input});
  std::vector<Tensor> parts;
  std::vector<Shape> shapes;
  for (const std::int64_t size : sizes) {
    shapes.push_back(input.shape().with(-1, size));
    parts.push_back(eager.alias(input, shapes.back(), true));
  }
  if (record.active()) {
    std::vector<Tensor*> outputs;
    for (Tensor& part : parts) {
      outputs.push_back(&part);
    }
    record.finish(
        outputs,
        [shapes, whole = input.shape()](Eager& e, Gradients& grads, Node& node) -> Gradients {
          std::vector<Tensor> zeros;
          for (std::size_t i = 0; i < grads.size(); ++i) {
            if (!grads[i].defined()) {
              zeros.push_back(e.empty(shapes[i], node.input_dtypes[0]));
            }
          }
          return {e.empty(whole, node.input_dtypes[0])};
        });
  }
  return parts;
}

std::pair<Tensor, Tensor> chunk_last(Eager& eager, const Tensor& input) {
  const std::int64_t half = ceil_div(input.shape()[-1], 2);
  const std::array<std::int64_t, 2> sizes = {half, input.shape()[-1] - half};
  std::vector<Tensor> parts = split_last(eager, input, sizes);
  return {std::move(parts[0]), std::move(parts[1])};
}

Tensor clone(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = eager.empty(input.shape(), input.dtype());
  if (record.active()) {
    record.finish(output, [](Eager&, Gradients& grads, Node&) -> Gradients { return {grads[0]}; });
  }
  return output;
}

Tensor contiguous(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  const bool copies = input->layout == Layout::kSwapped && shape[1] > 1 && shape[2] > 1;
  return copies ? clone(eager, input) : input;
}

Tensor to(Eager& eager, const Tensor& input, DType dtype) {
  if (input.dtype() == dtype) {
    return input;
  }
  Record record(eager, {&input});
  Tensor output = eager.empty(input.shape(), dtype);
  output->layout = input->layout;
  if (record.active()) {
    record.finish(output, [before = input.dtype()](Eager& e, Gradients& grads, Node&) -> Gradients {
      Tensor gradient = e.empty(grads[0].shape(), before);
      gradient->layout = grads[0]->layout;
      return {gradient};
    });
  }
  return output;
}

Tensor cat_last(Eager& eager, const Tensor& first, const Tensor& second) {
  Record record(eager, {&first, &second});
  const std::int64_t left = first.shape()[-1];
  Tensor output = eager.empty(first.shape().with(-1, left + second.shape()[-1]), first.dtype());
  if (record.active()) {
    record.finish(output, [left](Eager& e, Gradients& grads, Node&) -> Gradients {
      const Shape& shape = grads[0].shape();
      return {e.alias(grads[0], shape.with(-1, left), true),
              e.alias(grads[0], shape.with(-1, shape[-1] - left), true)};
    });
  }
  return output;
}

Tensor detach(Eager& eager, const Tensor& input) {
  Tensor output = eager.alias(input, input.shape(), false);
  output->layout = input->layout;
  return output;
}

Tensor repeat_heads(Eager& eager, const Tensor& input, std::int64_t times) {
  if (times == 1) {
    return input;
  }
  const Shape shape = input.shape();
  Record record(eager, {&input});
  Tensor output = eager.empty(shape.with(1, shape[1] * times), input.dtype());
  if (record.active()) {
    record.finish(output, [shape](Eager& e, Gradients& grads, Node&) -> Gradients {
      // The expanded copies are summed: one tensor of the narrow shape.
      return {e.empty(shape, grads[0].dtype())};
    });
  }
  return output;
}

}  // namespace headroom::ir::torch
