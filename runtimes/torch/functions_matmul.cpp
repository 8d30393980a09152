#include <algorithm>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::torch {
namespace {

struct GemmDims {
  std::int64_t rows = 0;  ///< Product of the input's leading dims.
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// Backward of a product of rows [rows, in] with a weight. `mm` makes the weight's gradient first,
/// `addmm` the input's, then sums the bias gradient from the output's.
/// Source: derivatives.yaml, mm and addmm; order observed on PyTorch 2.11.
Gradients linear_gradients(Eager& eager, Gradients& grads, Node& node, const GemmDims& dims) {
  const Unpacked saved(eager, node);
  Gradients result(node.next.size());
  const DType dtype = grads[0].dtype();
  if (grads[0]->layout == Layout::kColumns && grads[0].shape()[0] > 1) {
    grads[0] = computed(eager, grads[0].shape(), dtype);  // Its B and S cannot be merged.
  }
  // addmm's edges are bias, input, weight; mm's input, weight.
  const bool with_bias = result.size() == 3;
  const std::size_t at_input = with_bias ? 1 : 0;
  const std::size_t at_weight = at_input + 1;
  const auto weight_gradient = [&] {
    if (node.wants(at_weight)) {
      result[at_weight] = eager.empty(node.input_shapes[at_weight], dtype);
      result[at_weight]->tracked_view = true;  // weight.t(): the gradient comes back transposed.
      eager.touch_cublas();
      eager.run(GemmShape{
          .m = dims.out, .n = dims.in, .k = dims.rows, .dtype = dtype, .layout = GemmLayout::kNT});
    }
  };
  if (!with_bias) {
    weight_gradient();
  }
  if (node.wants(at_input)) {
    result[at_input] = eager.empty(node.input_shapes[at_input], dtype);
    result[at_input]->tracked_view = node.input_shapes[at_input].rank() > 2;
    eager.touch_cublas();
    eager.run(GemmShape{
        .m = dims.rows, .n = dims.in, .k = dims.out, .dtype = dtype, .layout = GemmLayout::kNN});
  }
  if (with_bias) {
    weight_gradient();
    if (node.wants(0)) {  // Validation sums it over the rows; a single row is summed here.
      result[0] = dims.rows == 1 ? computed(eager, {dims.out}, dtype, {&grads[0]}) : grads[0];
    }
  }
  return result;
}

/// What backward needs of a product that may already exist.
struct Kept {
  Tensor weight;   ///< The weight, or a view of it.
  Tensor product;  ///< Defined: the product already exists.
};

Tensor matrix_product(Eager& eager, const Tensor& input, const Tensor& weight, const Tensor& bias,
                      std::int64_t out, const Kept& kept) {
  const GemmDims dims{
      .rows = input.elements() / input.shape()[-1], .in = input.shape()[-1], .out = out};
  HEADROOM_ASSERT(dims.in * dims.out == weight.elements());
  const std::size_t at_input = bias.defined() ? 1 : 0;
  // addmm takes rows. An input with more dims is first viewed as rows, by a separate operator whose
  // gradient comes after those of weight and bias. Source: aten/src/ATen/native/Linear.cpp,
  // _flatten_nd_linear.
  const bool flattens = bias.defined() && input.shape().rank() > 2;
  const Tensor rows = flattens ? view(eager, input, {dims.rows, dims.in}) : input;
  const auto run = [&](Record& record) {
    // Saved variables are released in the alphabetical order of their names: addmm has mat1 and
    // mat2, mm has mat2 and self.
    const auto save_input = [&] {
      if (record.wants(at_input + 1)) {
        record.save(rows);
      }
    };
    if (bias.defined()) {
      save_input();
    }
    if (record.wants(at_input)) {
      record.save(kept.weight);
    }
    if (!bias.defined()) {
      save_input();
    }
    const Shape shape = input.shape().with(-1, out);
    Tensor output = kept.product.defined() ? eager.alias(kept.product, shape, false)
                                           : eager.empty(shape, input.dtype());
    if (!kept.product.defined()) {
      if (bias.defined()) {
        eager.touch_cublaslt();
      } else {
        eager.touch_cublas();
      }
      eager.run(GemmShape{.m = dims.rows, .n = dims.out, .k = dims.in, .dtype = input.dtype()});
    }
    if (record.active()) {
      record.finish(output, [dims](Eager& e, Gradients& grads, Node& node) -> Gradients {
        return linear_gradients(e, grads, node, dims);
      });
    }
    return output;
  };
  if (bias.defined()) {
    Record record(eager, {&bias, &rows, &weight});
    return run(record);
  }
  Record record(eager, {&input, &weight});
  return run(record);
}

}  // namespace

Tensor autocast_argument(Eager& eager, const Tensor& input) {
  const std::optional<DType> target = eager.autocast();
  if (!target || !input.defined() || input.dtype() == *target || input.dtype() == DType::kFp64 ||
      !is_floating(input.dtype())) {
    return input;
  }
  const bool leaf = input->grad_fn == nullptr && !input->tracked_view;
  const bool cached = input.dtype() == DType::kFp32 && input.requires_grad() && leaf;
  if (!cached) {
    return to(eager, input, *target);
  }
  auto& cache = eager.autocast_cache();
  const auto found = cache.find(input.impl());
  if (found != cache.end()) {
    return found->second;
  }
  Tensor copy = to(eager, input, *target);
  cache.emplace(input.impl(), copy);
  return copy;
}

Tensor linear(Eager& eager, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (eager.linear_override) {
    return eager.linear_override(input, weight, bias);
  }
  const std::int64_t out = weight.shape()[0];
  // The transposed view is saved. It keeps memory alive even after the parameter has moved to other
  // memory.
  const auto turned = [&eager](const Tensor& cast) {
    return eager.alias(cast, cast.shape(), true);
  };
  if (!eager.autocast()) {
    return matrix_product(eager, input, weight, bias, out, {turned(weight), {}});
  }
  // The wrapper's arguments are cast from the last to the first.
  const Tensor bias_cast = autocast_argument(eager, bias);
  const Tensor weight_cast = autocast_argument(eager, weight);
  const Tensor input_cast = autocast_argument(eager, input);
  return matrix_product(eager, input_cast, weight_cast, bias_cast, out, {turned(weight_cast), {}});
}

Tensor linear_of(Eager& eager, const Tensor& input, const Tensor& weight, const Tensor& product) {
  return matrix_product(eager, input, weight, {}, weight.shape()[0], {weight, product});
}

Tensor matmul_transposed(Eager& eager, const Tensor& input, const Tensor& weight) {
  // The transposed view is not a leaf: autocast casts it but does not cache the copy.
  const std::optional<DType> target = eager.autocast();
  const bool casts = target && weight.dtype() == DType::kFp32;
  const Tensor weight_cast = casts ? to(eager, weight, *target) : weight;
  const Tensor input_cast = autocast_argument(eager, input);
  const Tensor turned = eager.alias(weight_cast, weight_cast.shape(), true);
  return matrix_product(eager, input_cast, weight_cast, {}, weight.shape()[0], {turned, {}});
}

Tensor conv1d(Eager& eager, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const std::int64_t out = weight.shape()[1];
  const Tensor weight_cast = autocast_argument(eager, weight);
  const Tensor input_cast = autocast_argument(eager, input);
  const Tensor bias_cast = autocast_argument(eager, bias);
  return matrix_product(eager, input_cast, weight_cast, bias_cast, out, {weight_cast, {}});
}

namespace {

/// [B, A, S, D] as the batch of a bmm. Memory order [B, S, A, D], or one head viewed A times, must
/// be copied if there are several B, because B and A cannot be merged then. Source:
/// aten/src/ATen/native/LinearAlgebra.cpp, _matmul_impl: expand and reshape to three dims.
Tensor as_batch(Eager& eager, const Tensor& input) {
  const Shape& shape = input.shape();
  const bool copies =
      input->layout != Layout::kContiguous && shape[0] > 1 && shape[1] > 1 && shape[2] > 1;
  return copies ? clone(eager, input) : input;
}

/// The product's batch viewed as [B, A, ..] again; a gradient with memory order [B, S, A, D] is
/// copied.
Tensor from_batch(Eager& eager, const Tensor& product) {
  Record record(eager, {&product});
  Tensor output = eager.alias(product, product.shape(), true);
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node&) -> Gradients {
      const Shape& shape = grads[0].shape();
      const bool copies =
          grads[0]->layout == Layout::kSwapped && shape[0] > 1 && shape[1] > 1 && shape[2] > 1;
      return {copies ? computed(e, shape, grads[0].dtype(), {&grads[0]})
                     : e.alias(grads[0], shape, true)};
    });
  }
  return output;
}

/// The product that computes the gradient of factor `factor` of the product `forward`.
GemmShape gradient_product(const GemmShape& forward, std::size_t factor, DType dtype, bool keys) {
  GemmShape shape = forward;
  shape.dtype = dtype;
  if (factor == 0) {
    std::swap(shape.n, shape.k);
    shape.layout = keys ? GemmLayout::kNN : GemmLayout::kTN;
  } else {
    std::swap(shape.m, shape.k);
    shape.layout = GemmLayout::kNT;
  }
  return shape;
}

/// `keys`: the second factor was [.., S, D] and was multiplied as its transpose.
Gradients bmm_gradients(Eager& eager, Gradients& grads, Node& node, bool keys,
                        const GemmShape& dims) {
  const Unpacked saved(eager, node);
  Gradients gradients(2);
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (node.wants(i)) {
      gradients[i] = eager.empty(node.input_shapes[i], grads[0].dtype());
      gradients[i]->tracked_view = true;
      if (i == 1 && keys) {
        gradients[i]->layout = Layout::kColumns;
      }
      eager.touch_cublas();
      eager.run(gradient_product(dims, i, grads[0].dtype(), keys));
    }
  }
  return gradients;
}

}  // namespace

Tensor batched_matmul(Eager& eager, const Tensor& a, const Tensor& b, const Shape& output) {
  const Tensor right_cast = autocast_argument(eager, b);
  const Tensor left_cast = autocast_argument(eager, a);
  const Tensor left = as_batch(eager, left_cast);
  const Tensor right =
      as_batch(eager, repeat_heads(eager, right_cast, a.shape()[1] / b.shape()[1]));
  Record record(eager, {&left, &right});
  if (record.wants(0)) {
    record.save(right);
  }
  if (record.wants(1)) {
    record.save(left);
  }
  Tensor result = eager.empty(output, left.dtype());
  eager.touch_cublas();
  const std::int64_t batch = output.elements() / (output[-2] * output[-1]);
  const bool keys = a.shape()[-1] == b.shape()[-1] && output[-1] == b.shape()[-2];
  const GemmShape dims{.m = output[-2],
                       .n = output[-1],
                       .k = left.elements() / (batch * output[-2]),
                       .count = batch,
                       .dtype = left.dtype(),
                       .layout = keys ? GemmLayout::kTN : GemmLayout::kNN};
  eager.run(dims);
  if (record.active()) {
    record.finish(result, [dims, keys](Eager& e, Gradients& grads, Node& node) -> Gradients {
      return bmm_gradients(e, grads, node, keys, dims);
    });
  }
  return from_batch(eager, result);
}

Tensor biased_scores(Eager& eager, const Tensor& bias, const Tensor& q, const Tensor& k) {
  const Tensor right = autocast_argument(eager, k);
  const Tensor left = autocast_argument(eager, q);
  const Tensor added = autocast_argument(eager, bias);
  Record record(eager, {&left, &right});
  if (record.wants(1)) {
    record.save(left);
  }
  if (record.wants(0)) {
    record.save(right);
  }
  const Shape& shape = q.shape();
  Tensor output = eager.empty(shape.with(3, k.shape()[2]), left.dtype());
  eager.touch_cublas();
  const GemmShape dims{.m = shape[2],
                       .n = k.shape()[2],
                       .k = shape[3],
                       .count = shape[0] * shape[1],
                       .dtype = left.dtype()};
  launch(eager, {&added, &output});  // The bias, expanded to the output.
  eager.run(dims);
  if (record.active()) {
    record.finish(output, [dims](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Unpacked saved(e, node);
      Gradients result(2);
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
        if (node.wants(i)) {
          Tensor product = e.empty(node.input_shapes[i], grads[0].dtype());
          e.touch_cublas();
          e.run(gradient_product(dims, i, grads[0].dtype(), true));
          result[i] = computed(e, node.input_shapes[i], grads[0].dtype(), {&product});  // Times
                                                                                        // alpha.
        }
      }
      return result;
    });
  }
  return output;
}

}  // namespace headroom::ir::torch
