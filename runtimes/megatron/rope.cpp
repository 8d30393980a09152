// Rotary embedding as Megatron-Core computes it without a fused kernel.
// Source: megatron/core/models/common/embeddings/rope_utils.py, _apply_rotary_pos_emb_bshd.
#include <utility>

#include "runtimes/megatron/layer.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::computed;
using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// Cosine or sine of all angles, times a factor of one, in the type of the queries and keys.
Tensor angle_function(const Runner& run, const Tensor& angles) {
  Eager& eager = run.eager();
  Tensor plain = computed(eager, angles.shape(), DType::kFp32, {&angles});
  Tensor scaled = computed(eager, angles.shape(), DType::kFp32, {&plain});
  plain.reset();
  if (run.context.dtype == DType::kFp32) {
    return scaled;
  }
  return computed(eager, angles.shape(), run.context.dtype, {&scaled});
}

/// Swaps the two halves and negates one of them.
Tensor turned(const Runner& run, const Tensor& input) {
  Eager& eager = run.eager();
  const Tensor negated =
      computed(eager, {input.shape()[0], input.shape()[1] / 2}, input.dtype(), {&input});
  return computed(eager, input.shape(), input.dtype(), {&negated, &negated});
}

Gradients rotation_gradients(const Runner& run, Gradients& grads, Node& node) {
  Eager& eager = run.eager();
  const auto product = [&](std::size_t factor) {
    Tensor result = computed(eager, grads[0].shape(), grads[0].dtype(), {&grads[0]});
    node.saved[factor].reset();
    return result;
  };
  Tensor through_sine = product(1);
  const Tensor turned_back = turned(run, through_sine);
  through_sine.reset();
  const Tensor through_cosine = product(0);
  grads[0].reset();
  // The part that is not rotated is empty; its gradient still has the size of the whole.
  Tensor result = torch::filled(eager, turned_back.shape(), turned_back.dtype());
  torch::launch(eager, {&turned_back, &through_cosine, &result});
  return {std::move(result)};
}

}  // namespace

Tensor rotate_unfused(const Runner& run, const Tensor& input, const Tensor& angles) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  const Tensor cosine = angle_function(run, angles);
  const Tensor sine = angle_function(run, angles);
  Tensor sum;
  {
    const Tensor straight = computed(eager, input.shape(), input.dtype(), {&input, &cosine});
    Tensor half = turned(run, input);
    const Tensor across = computed(eager, input.shape(), input.dtype(), {&half, &sine});
    half.reset();
    sum = computed(eager, input.shape(), input.dtype(), {&straight, &across});
  }
  Tensor output = computed(eager, input.shape(), input.dtype(), {&sum});
  sum.reset();
  record.save(cosine);
  record.save(sine);
  record.finish(output, [run](Eager&, Gradients& grads, Node& node) -> Gradients {
    return rotation_gradients(run, grads, node);
  });
  return output;
}

}  // namespace headroom::ir::megatron
