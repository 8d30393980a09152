#include "runtimes/torch/sdpa_mask.h"

#include <algorithm>
#include <utility>

#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

/// The first columns of padded rows; backward fills a zero tensor of the whole shape.
Tensor first_columns(Eager& eager, const Tensor& wide, const Shape& shape) {
  Record record(eager, {&wide});
  Tensor output = eager.alias(wide, shape, true);
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      return {computed(e, node.input_shapes[0], grads[0].dtype(), {&grads[0]})};
    });
  }
  return output;
}

}  // namespace

Tensor additive(Eager& eager, const Tensor& mask, std::int64_t batch, DType dtype) {
  if (mask.dtype() != DType::kBool) {
    return mask;
  }
  const Tensor zero = filled(eager, {}, dtype);
  const Tensor lowest = filled(eager, {}, dtype);
  return computed(eager, mask.shape().with(0, batch), dtype, {&mask});
}

Tensor aligned(Eager& eager, const Tensor& mask) {
  constexpr std::int64_t kAlignment = 8;
  const std::int64_t width = mask.shape()[-1];
  if (width % kAlignment == 0) {
    return mask;
  }
  launch_fill(eager, mask);
  Tensor padded;
  {
    Record record(eager, {&mask});
    padded =
        computed(eager, mask.shape().with(-1, align_up(width, kAlignment)), mask.dtype(), {&mask});
    if (record.active()) {
      record.finish(padded, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
        return {computed(e, node.input_shapes[0], grads[0].dtype(), {&grads[0]})};
      });
    }
  }
  return mask.requires_grad() ? first_columns(eager, padded, mask.shape()) : padded;
}

Tensor expanded(Eager& eager, const Tensor& mask, std::int64_t batch) {
  if (!mask.requires_grad() || mask.shape()[0] == batch) {
    return mask;
  }
  Record record(eager, {&mask});
  Tensor output = eager.alias(mask, mask.shape().with(0, batch), true);
  if (record.active()) {
    record.finish(output, [](Eager&, Gradients& grads, Node&) -> Gradients { return {grads[0]}; });
  }
  return output;
}

Tensor causal_bias(Eager& eager, std::int64_t queries, std::int64_t keys, DType dtype) {
  const Shape square{queries, keys};
  Tensor ones = filled(eager, square, DType::kBool);
  Tensor lower = computed(eager, square, DType::kBool, {&ones});
  ones.reset();
  const Tensor zero = filled(eager, {}, dtype);
  const Tensor lowest = filled(eager, {}, dtype);
  return computed(eager, square, dtype, {&lower});
}

Tensor masked_bias(Eager& eager, const Tensor& allowed, const Tensor& bias) {
  Record record(eager, {&bias});
  record.save(allowed);
  const Tensor lowest = filled(eager, {}, bias.dtype());
  Tensor output = computed(eager, bias.shape(), bias.dtype(), {&allowed, &bias});
  output->layout = bias->layout;
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Unpacked saved(e, node);
      const Tensor zero = filled(e, {}, grads[0].dtype());
      return {computed(e, grads[0].shape(), grads[0].dtype(), {&grads[0]})};
    });
  }
  return output;
}

}  // namespace headroom::ir::torch
