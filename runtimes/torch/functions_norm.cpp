#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::torch {
namespace {

Tensor reduce_last(Eager& eager, const Tensor& input) {
  const std::int64_t width = input.shape()[-1];
  return reduce(eager, input.shape().with(-1, 1), input.dtype(),
                {.outputs = input.elements() / width,
                 .inputs_per_output = width,
                 .innermost = true,
                 .accumulator_bytes = 4,
                 .element_bytes = bits_of(input.dtype()) / 8});
}

}  // namespace

Tensor mean_last(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = reduce_last(eager, input);
  if (record.active()) {
    record.finish(output, [shape = input.shape()](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {computed(e, shape, grads[0].dtype(), {&grads[0]})};  // The expanded one over n.
    });
  }
  return output;
}

Tensor layer_norm(Eager& eager, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  // Under autocast layer_norm is an fp32 operator: every argument is cast.
  const bool widen = eager.autocast().has_value();
  const Tensor x = widen ? to(eager, input, DType::kFp32) : input;
  const Tensor w = widen ? to(eager, weight, DType::kFp32) : weight;
  const Tensor b = widen && bias.defined() ? to(eager, bias, DType::kFp32) : bias;
  Record record(eager, {&x, &w, &b});
  record.save(x);
  record.save(w);
  record.save(b);
  const Shape rows = x.shape().with(-1, 1);
  Tensor output = eager.empty(x.shape(), x.dtype());
  Tensor mean = eager.empty(rows, DType::kFp32);
  Tensor rstd = eager.empty(rows, DType::kFp32);
  launch_kernels(eager, bytes_of(x) + bytes_of(output));
  if (record.active()) {
    record.save(mean);
    record.save(rstd);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Unpacked saved(e, node);
      Gradients result(3);
      for (std::size_t i = 0; i < 3; ++i) {
        if (node.wants(i)) {
          result[i] = e.empty(node.input_shapes[i], grads[0].dtype());
        }
      }
      if (node.wants(0)) {
        launch_kernels(e, bytes_of(grads[0]) + bytes_of(saved[0]) + bytes_of(result[0]));
      }
      if (node.wants(1) || node.wants(2)) {
        launch_kernels(e, bytes_of(grads[0]) + bytes_of(saved[0]));
      }
      return result;
    });
  }
  return output;
}

Tensor rms_norm(Eager& eager, const Tensor& input, const Tensor& weight) {
  Record record(eager, {&input, &weight});
  record.save(input);
  record.save(weight);
  Tensor output = eager.empty(input.shape(), input.dtype());
  const Tensor inverse = eager.empty(input.shape().with(-1, 1), DType::kFp32);
  launch_kernels(eager, bytes_of(input) + bytes_of(output));
  if (record.active()) {
    record.save(inverse);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Unpacked saved(e, node);
      Gradients result(2);
      for (std::size_t i = 0; i < result.size(); ++i) {
        if (node.wants(i)) {
          result[i] = e.empty(node.input_shapes[i], grads[0].dtype());
          launch_kernels(e, bytes_of(grads[0]) + bytes_of(saved[0]) + bytes_of(result[i]));
        }
      }
      return result;
    });
  }
  return output;
}

Tensor rms_norm_composed(Eager& eager, const Tensor& input, const Tensor& weight) {
  const Tensor wide = to(eager, input, DType::kFp32);
  Tensor squares = square(eager, wide);
  Tensor mean = mean_last(eager, squares);
  squares.reset();
  Tensor shifted = shift(eager, mean);
  mean.reset();
  const Tensor factor = rsqrt(eager, shifted);
  shifted.reset();
  Tensor value = mul(eager, wide, factor);
  const Tensor narrow = to(eager, value, input.dtype());
  value.reset();
  return mul(eager, narrow, weight);
}

Tensor softmax_last(Eager& eager, const Tensor& input, DType dtype) {
  // The kernel converts only fp16 itself; bf16 is cast first.
  // Source: aten/src/ATen/native/SoftMax.cpp, softmax(input, dim, dtype).
  const bool fused = input.dtype() == DType::kFp16 && dtype == DType::kFp32;
  const Tensor x = fused ? input : to(eager, input, dtype);
  Record record(eager, {&x});
  Tensor output = eager.empty(x.shape(), dtype);
  launch_kernels(eager, bytes_of(x) + bytes_of(output));
  if (record.active()) {
    record.save_output(output);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      Tensor gradient = e.empty(grads[0].shape(), node.input_dtypes[0]);
      const Tensor product =  // grad * output
          computed(e, grads[0].shape(), grads[0].dtype(), {&grads[0], &saved});
      launch_kernels(e, bytes_of(product) + bytes_of(saved) + bytes_of(gradient));
      return {gradient};
    });
  }
  return output;
}

}  // namespace headroom::ir::torch
