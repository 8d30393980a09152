#include <array>

#include "model_ir/base/check.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

/// Whether converting [B, A, S, D] with this layout to [B, S, A*D] needs a copy.
bool merge_copies(const Tensor& heads) {
  const Shape& shape = heads.shape();
  return heads->layout == Layout::kRepeated ||
         (heads->layout == Layout::kContiguous && shape[1] > 1 && shape[2] > 1);
}

Gradients reshape_gradient(Eager& eager, const Tensor& gradient, const Shape& shape) {
  if (gradient.shape().rank() == 4 && shape.rank() == 3 && merge_copies(gradient) &&
      shape[1] == gradient.shape()[2]) {
    return {computed(eager, shape, gradient.dtype(), {&gradient})};
  }
  Tensor seen = eager.alias(gradient, shape, true);
  if (gradient->layout == Layout::kColumns) {
    seen->layout = Layout::kColumns;
  }
  return {seen};
}

/// slice_backward and select_backward: the gradient is copied into zeros of the whole shape.
Tensor slice_backward(Eager& eager, const Tensor& gradient, const Shape& whole) {
  Tensor result = filled(eager, whole, gradient.dtype());
  launch(eager, {&gradient, &gradient});
  return result;
}

/// Kernels of an accumulating index_put of one index: linear index, sort, sums.
/// Source: observed on PyTorch 2.11.
constexpr std::int64_t kIndexPutKernels = 6;

/// Temporaries for the sort and scan of an accumulating index_put with one index.
/// Source: aten/src/ATen/native/cuda/Indexing.cu, index_put_with_sort_kernel; observed sizes.
void index_put_scratch(Eager& eager) {
  const auto scratch = [&](DType dtype) { return eager.empty({1}, dtype, TensorRole::kWorkspace); };
  const Tensor linear = scratch(DType::kInt64);
  Tensor scaled = scratch(DType::kInt64);
  scaled.reset();
  const Tensor range = scratch(DType::kInt64);
  const Tensor keys = scratch(DType::kInt64);
  const Tensor values = scratch(DType::kInt64);
  const Tensor sort = scratch(DType::kUInt8);
}

/// A transposed view; the gradient goes back the same way.
Tensor transposed(Eager& eager, const Tensor& input, const Shape& seen_as) {
  Record record(eager, {&input});
  Tensor output = eager.alias(input, seen_as, true);
  output->layout = Layout::kSwapped;
  if (record.active()) {
    record.finish(output, [shape = input.shape()](Eager& e, Gradients& grads, Node&) -> Gradients {
      Tensor gradient = e.alias(grads[0], shape, true);
      gradient->layout =
          grads[0]->layout == Layout::kSwapped ? Layout::kContiguous : Layout::kSwapped;
      return {gradient};
    });
  }
  return output;
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
      return {copies ? computed(e, before, grads[0].dtype(), {&grads[0]})
                     : e.alias(grads[0], before, true)};
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
  return transposed(eager, input, {shape[0], shape[2], shape[1], shape[3]});
}

Tensor heads_first(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  return transposed(eager, input, {1, shape[2], shape[0], shape[1]});
}

Tensor merge_heads(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  const Shape merged{shape[0], shape[2], shape[1] * shape[3]};
  Record record(eager, {&input});
  Tensor output = merge_copies(input) ? computed(eager, merged, input.dtype(), {&input})
                                      : eager.alias(input, merged, true);
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
    return input;  // x[..., :n] of the whole runs no operator.
  }
  Record record(eager, {&input});
  Tensor output = eager.alias(input, input.shape().with(-1, size), true);
  output->layout = input->layout;
  if (record.active()) {
    record.finish(output, [whole = input.shape()](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {slice_backward(e, grads[0], whole)};
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
              zeros.push_back(filled(e, shapes[i], node.input_dtypes[0]));
            }
          }
          return {computed(e, whole, node.input_dtypes[0])};  // cat
        });
  }
  return parts;
}

std::vector<Tensor> split_fused_heads(Eager& eager, const Tensor& input, std::int64_t head_dim,
                                      FusedHeads form) {
  constexpr int kParts = 3;
  const Shape whole = input.shape();
  const Shape heads{whole[0], whole[2] / (kParts * head_dim), whole[1], head_dim};
  std::vector<Tensor> parts;
  const auto part = [&] {
    Tensor view = eager.alias(input, heads, true);
    view->layout = Layout::kSwapped;
    parts.push_back(std::move(view));
  };
  if (form == FusedHeads::kSelected) {
    for (int i = 0; i < kParts; ++i) {
      Record record(eager, {&input});
      part();
      if (record.active()) {  // select_backward: zeros of the whole shape.
        record.finish(parts.back(), [whole](Eager& e, Gradients& grads, Node&) -> Gradients {
          return {slice_backward(e, grads[0], whole)};
        });
      }
    }
    return parts;
  }
  Record record(eager, {&input});
  for (int i = 0; i < kParts; ++i) {
    part();
  }
  if (record.active()) {  // split_backward concatenates; then the sum is made contiguous.
    std::vector<Tensor*> outputs = {&parts[0], &parts[1], &parts[2]};
    record.finish(outputs, [whole](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor joined = computed(e, whole, node.input_dtypes[0]);
      grads.clear();
      return {computed(e, whole, node.input_dtypes[0])};
    });
  }
  return parts;
}

std::vector<Tensor> split_multi_query(Eager& eager, const Tensor& input, std::int64_t head_dim) {
  const Shape whole = input.shape();
  std::vector<Tensor> parts;
  {
    Record record(eager, {&input});
    parts.push_back(
        eager.alias(input, {whole[0], whole[2] / head_dim - 2, whole[1], head_dim}, true));
    parts[0]->layout = Layout::kSwapped;
    if (record.active()) {
      record.finish(parts[0], [whole](Eager& e, Gradients& grads, Node&) -> Gradients {
        return {slice_backward(e, grads[0], whole)};
      });
    }
  }
  for (int i = 0; i < 2; ++i) {
    Record record(eager, {&input});
    const Tensor index = eager.empty({1}, DType::kInt64);
    record.save(index);
    parts.push_back(computed(eager, {whole[0], 1, whole[1], head_dim}, input.dtype()));
    parts.back()->layout = Layout::kSwapped;
    if (record.active()) {
      record.finish(parts.back(), [whole](Eager& e, Gradients& grads, Node& node) -> Gradients {
        const Unpacked saved(e, node);
        Tensor gradient = filled(e, whole, grads[0].dtype());
        index_put_scratch(e);
        launch_kernels(e, 2 * bytes_of(grads[0]), kIndexPutKernels);
        return {gradient};
      });
    }
  }
  return parts;
}

Tensor select_token(Eager& eager, const Tensor& input) {
  const Shape whole = input.shape();
  Record record(eager, {&input});
  Tensor output = eager.alias(input, {whole[0], whole[2]}, true);
  if (record.active()) {
    record.finish(output, [whole](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {slice_backward(e, grads[0], whole)};
    });
  }
  return output;
}

std::pair<Tensor, Tensor> chunk_last(Eager& eager, const Tensor& input) {
  const std::int64_t half = ceil_div(input.shape()[-1], 2);
  const std::array<std::int64_t, 2> sizes = {half, input.shape()[-1] - half};
  std::vector<Tensor> parts = split_last(eager, input, sizes);
  return {std::move(parts[0]), std::move(parts[1])};
}

Tensor handed_on(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = eager.alias(input, input.shape(), false);
  record.finish(output, [](Eager&, Gradients& grads, Node&) -> Gradients { return {grads[0]}; });
  return output;
}

Tensor clone(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = eager.empty(input.shape(), input.dtype());
  launch_copy(eager, input, output,
              input->layout == Layout::kContiguous ? CopyOrder::kSame : CopyOrder::kOther);
  if (record.active()) {
    record.finish(output, [](Eager&, Gradients& grads, Node&) -> Gradients { return {grads[0]}; });
  }
  return output;
}

Tensor contiguous(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  const bool swapped = input->layout == Layout::kSwapped && shape[1] > 1 && shape[2] > 1;
  const bool copies = swapped || input->layout == Layout::kRepeated;
  return copies ? clone(eager, input) : input;
}

Tensor to(Eager& eager, const Tensor& input, DType dtype) {
  if (input.dtype() == dtype) {
    return input;
  }
  Record record(eager, {&input});
  Tensor output = computed(eager, input.shape(), dtype, {&input});
  output->layout = input->layout;
  if (record.active()) {
    record.finish(output, [before = input.dtype()](Eager& e, Gradients& grads, Node&) -> Gradients {
      Tensor gradient = computed(e, grads[0].shape(), before, {&grads[0]});
      gradient->layout = grads[0]->layout;
      return {gradient};
    });
  }
  return output;
}

Tensor cat_last(Eager& eager, const Tensor& first, const Tensor& second) {
  Record record(eager, {&first, &second});
  const std::int64_t left = first.shape()[-1];
  const bool widens = bits_of(second.dtype()) > bits_of(first.dtype());
  Tensor output = eager.empty(first.shape().with(-1, left + second.shape()[-1]),
                              widens ? second.dtype() : first.dtype());
  launch(eager, {&first, &second, &output});
  if (record.active()) {
    record.finish(output, [left](Eager& e, Gradients& grads, Node&) -> Gradients {
      const Shape& shape = grads[0].shape();
      Tensor head = e.alias(grads[0], shape.with(-1, left), true);
      Tensor tail = e.alias(grads[0], shape.with(-1, shape[-1] - left), true);
      head->layout = grads[0]->layout;
      tail->layout = grads[0]->layout;
      return {std::move(head), std::move(tail)};
    });
  }
  return output;
}

Tensor detach(Eager& eager, const Tensor& input) {
  Tensor output = eager.alias(input, input.shape(), false);
  output->layout = input->layout;
  return output;
}

void detach_in_place(const Tensor& tensor) {
  tensor->requires_grad = false;
  if (Node* const node = std::exchange(tensor->grad_fn, nullptr)) {
    drop_use(node);
  }
}

Tensor repeat_heads(Eager& eager, const Tensor& input, std::int64_t times) {
  if (times == 1) {
    return input;
  }
  const Shape shape = input.shape();
  Record record(eager, {&input});
  const Shape repeated = shape.with(1, shape[1] * times);
  Tensor output = shape[1] == 1 ? eager.alias(input, repeated, true)
                                : computed(eager, repeated, input.dtype(), {&input});
  if (shape[1] == 1) {
    output->layout = Layout::kRepeated;
  }
  if (record.active()) {
    record.finish(output, [shape](Eager& e, Gradients& grads, Node&) -> Gradients {
      // The gradients of the expanded copies are summed: one tensor of the narrow shape.
      return {computed(e, shape, grads[0].dtype(), {&grads[0]})};
    });
  }
  return output;
}

}  // namespace headroom::ir::torch
