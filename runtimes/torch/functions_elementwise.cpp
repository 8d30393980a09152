#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

/// Type promotion of two floating-point tensors: the wider type; for two different 16-bit types
/// fp32.
DType promote(DType a, DType b) {
  if (a == b) {
    return a;
  }
  if (!is_floating(a) || !is_floating(b)) {
    return is_floating(a) ? a : b;
  }
  return bits_of(a) == bits_of(b) ? DType::kFp32 : (bits_of(a) > bits_of(b) ? a : b);
}

/// The operand that the other is broadcast to.
const Tensor& wider(const Tensor& a, const Tensor& b) {
  if (a.elements() != b.elements()) {
    return a.elements() > b.elements() ? a : b;
  }
  return a.shape().rank() >= b.shape().rank() ? a : b;
}

Tensor like(Eager& eager, const Tensor& model, DType dtype) {
  Tensor result = eager.empty(model.shape(), dtype);
  const bool kept = model->layout == Layout::kSwapped || model->layout == Layout::kColumns;
  result->layout = kept ? model->layout : Layout::kContiguous;
  return result;
}
Tensor like(Eager& eager, const Tensor& model) {
  return like(eager, model, model.dtype());
}

/// A tensor like `model` that one kernel computes from `read`.
Tensor computed_like(Eager& eager, const Tensor& model, DType dtype,
                     std::initializer_list<const Tensor*> read) {
  Tensor result = like(eager, model, dtype);
  launch_into(eager, result, read);
  return result;
}
/// The same from `model` alone.
Tensor computed_like(Eager& eager, const Tensor& model) {
  return computed_like(eager, model, model.dtype(), {&model});
}

/// An operator of one input whose backward makes one tensor and saves nothing.
Tensor unary(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = computed_like(eager, input);
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {computed_like(e, grads[0])};
    });
  }
  return output;
}

enum class Saves : bool { kInput, kOutput };

/// An operator of one input that saves its input or its output, with a fused backward kernel.
Tensor unary_saving(Eager& eager, const Tensor& input, Saves saves) {
  Record record(eager, {&input});
  if (saves == Saves::kInput) {
    record.save(input);
  }
  Tensor output = computed_like(eager, input);
  if (record.active()) {
    if (saves == Saves::kOutput) {
      record.save_output(output);
    }
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      return {computed_like(e, grads[0], grads[0].dtype(), {&grads[0], &saved})};
    });
  }
  return output;
}

/// `exponent * x^(exponent-1)` times the gradient: three tensors, one of which remains. Autocast
/// runs pow in fp32. `lower`: how x^(exponent-1) is computed; for an exponent of one it is a copy.
enum class LowerPower : bool { kCopy, kKernel };
Tensor power(Eager& eager, const Tensor& base, LowerPower form) {
  const Tensor input = eager.autocast() ? to(eager, base, DType::kFp32) : base;
  Record record(eager, {&input});
  record.save(input);
  Tensor output = computed_like(eager, input);
  if (record.active()) {
    record.finish(output, [form](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      Tensor lower = like(e, saved);
      launch_copy(e, saved, lower,
                  form == LowerPower::kCopy ? CopyOrder::kSame : CopyOrder::kOther);
      Tensor scaled = computed_like(e, lower);
      Tensor gradient = computed_like(e, grads[0], grads[0].dtype(), {&grads[0], &scaled});
      lower.reset();
      scaled.reset();
      return {gradient};
    });
  }
  return output;
}

Tensor sum_of(Eager& eager, const Tensor& a, const Tensor& b, bool negative) {
  Record record(eager, {&a, &b});
  const Tensor& wide = wider(a, b);
  Tensor output = computed_like(eager, wide, promote(a.dtype(), b.dtype()), {&a, &b});
  if (record.active()) {
    record.finish(output, [negative](Eager& e, Gradients& grads, Node& node) -> Gradients {
      Gradients result(2);
      if (node.wants(0)) {
        result[0] = grads[0];
      }
      if (node.wants(1)) {
        result[1] = negative ? computed_like(e, grads[0]) : grads[0];
      }
      return result;
    });
  }
  return output;
}

}  // namespace

Tensor add(Eager& eager, const Tensor& a, const Tensor& b) {
  return sum_of(eager, a, b, false);
}
Tensor add_in_place(Eager& eager, const Tensor& target, const Tensor& other) {
  Record record(eager, {&target, &other});
  Tensor output = eager.alias(target, target.shape(), false);
  launch(eager, {&target, &other, &target});
  output->layout = target->layout;
  if (record.active()) {
    record.finish(output, [](Eager&, Gradients& grads, Node&) -> Gradients {
      return {grads[0], grads[0]};
    });
  }
  return output;
}
Tensor sub(Eager& eager, const Tensor& a, const Tensor& b) {
  return sum_of(eager, a, b, true);
}

Tensor divide_by_constant(Eager& eager, const Tensor& input, const Tensor& divisor) {
  Record record(eager, {&input});
  record.save(divisor);
  Tensor output = computed(eager, input.shape(), input.dtype());
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      return {computed(e, grads[0].shape(), grads[0].dtype())};
    });
  }
  return output;
}

Tensor mul(Eager& eager, const Tensor& a, const Tensor& b) {
  Record record(eager, {&a, &b});
  if (record.wants(0)) {
    record.save(b);
  }
  if (record.wants(1)) {
    record.save(a);
  }
  const Tensor& wide = wider(a, b);
  Tensor output = computed_like(eager, wide, promote(a.dtype(), b.dtype()), {&a, &b});
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Unpacked saved(e, node);
      Gradients result(2);
      for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
        if (node.wants(i)) {
          // In the promoted type; the engine casts it.
          const Tensor& other = saved[node.wants(0) && i == 1 ? 1 : 0];
          result[i] = computed_like(e, grads[0], grads[0].dtype(), {&grads[0], &other});
        }
      }
      return result;
    });
  }
  return output;
}

Tensor scale(Eager& eager, const Tensor& input) {
  return unary(eager, input);
}

Tensor scale_in_place(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = eager.alias(input, input.shape(), false);
  launch(eager, {&input, &input});
  output->layout = input->layout;
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {computed_like(e, grads[0])};
    });
  }
  return output;
}

Tensor shift(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = computed_like(eager, input);
  if (record.active()) {
    record.finish(output, [](Eager&, Gradients& grads, Node&) -> Gradients { return {grads[0]}; });
  }
  return output;
}

Tensor negate(Eager& eager, const Tensor& input) {
  return unary(eager, input);
}
Tensor square(Eager& eager, const Tensor& input) {
  return power(eager, input, LowerPower::kCopy);
}
Tensor cube(Eager& eager, const Tensor& input) {
  return power(eager, input, LowerPower::kKernel);
}

Tensor rsqrt(Eager& eager, const Tensor& input) {
  Record record(eager, {&input});
  Tensor output = computed_like(eager, input);
  if (record.active()) {
    record.save_output(output);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);  // -0.5 * grad * result.pow(3)
      Tensor half = computed_like(e, grads[0]);
      Tensor cubed = computed_like(e, saved);
      Tensor gradient = computed_like(e, grads[0], grads[0].dtype(), {&half, &cubed});
      cubed.reset();
      half.reset();
      return {gradient};
    });
  }
  return output;
}

Tensor tanh(Eager& eager, const Tensor& input) {
  return unary_saving(eager, input, Saves::kOutput);
}
Tensor sigmoid(Eager& eager, const Tensor& input) {
  return unary_saving(eager, input, Saves::kOutput);
}
Tensor silu(Eager& eager, const Tensor& input) {
  return unary_saving(eager, input, Saves::kInput);
}
Tensor gelu(Eager& eager, const Tensor& input) {
  return unary_saving(eager, input, Saves::kInput);
}
Tensor relu(Eager& eager, const Tensor& input) {
  return unary_saving(eager, input, Saves::kOutput);
}

Tensor dropout(Eager& eager, const Tensor& input, double probability) {
  if (probability <= 0) {
    return input;
  }
  Record record(eager, {&input});
  Tensor mask = like(eager, input, DType::kBool);
  Tensor output = computed_like(eager, input, input.dtype(), {&input, &mask});
  if (record.active()) {
    record.save(mask);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      return {computed_like(e, grads[0], grads[0].dtype(), {&grads[0], &saved})};
    });
  }
  return output;
}

Tensor add_constant(Eager& eager, const Tensor& input, const Tensor& constant) {
  Record record(eager, {&input});
  Tensor output =
      computed_like(eager, input, promote(input.dtype(), constant.dtype()), {&input, &constant});
  if (record.active()) {
    record.finish(output, [](Eager&, Gradients& grads, Node&) -> Gradients { return {grads[0]}; });
  }
  return output;
}

}  // namespace headroom::ir::torch
