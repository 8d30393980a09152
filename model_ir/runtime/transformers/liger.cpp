#include "model_ir/runtime/transformers/liger.h"

#include <array>
#include <utility>
#include <vector>

#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/launch.h"
#include "model_ir/runtime/torch/record.h"
#include "model_ir/runtime/torch/reduce.h"
#include "model_ir/runtime/transformers/modeling.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Shape;
using torch::Tensor;

namespace {

/// A tensor on the same memory, in the same order.
Tensor same_memory(Eager& eager, const Tensor& tensor) {
  Tensor view = eager.alias(tensor, tensor.shape(), true);
  view->layout = tensor->layout;
  return view;
}

/// `_dW.sum(dim=0).to(W.dtype)`
Tensor sum_of_parts(Eager& eager, const Shape& parts, DType dtype) {
  const std::int64_t columns = parts[1];
  const Tensor sum = torch::reduce(eager, {columns}, DType::kFp32,
                                   {.outputs = columns,
                                    .inputs_per_output = parts[0],
                                    .innermost = false,
                                    .accumulator_bytes = 4,
                                    .element_bytes = 4});
  return torch::to(eager, sum, dtype);
}

/// Gradients as [B, S, A, D]: a copy unless they lie in memory so.
Tensor turned(Eager& eager, const Tensor& gradient) {
  if (gradient->layout == torch::Layout::kSwapped) {
    return same_memory(eager, gradient);
  }
  Tensor copy = torch::computed(eager, gradient.shape(), gradient.dtype());
  copy->layout = torch::Layout::kSwapped;
  return copy;
}

}  // namespace

std::optional<Error> liger_trouble(const ModelSpec& spec) {
  const bool served =
      spec.architecture == Architecture::kCausalLm && spec.norm == NormKind::kRms &&
      spec.position == PositionKind::kRope && spec.rope_fraction == 1.0 && !spec.rope_interleaved &&
      !spec.local_rope && !spec.latent && !spec.moe && spec.gated_mlp && !spec.fused_gate_up &&
      spec.activation == Activation::kSilu && modeling_of(spec.family).rope == RopeForm::kWhole;
  if (served) {
    return std::nullopt;
  }
  return Error::invalid_argument("liger", spec.name,
                                 "a dense decoder with Llama's norms, gated MLP and rotation",
                                 "the patches of the other families are not modelled");
}

Tensor liger_rms_norm(Eager& eager, const Tensor& input, const Tensor& weight) {
  torch::Record record(eager, {&input, &weight});
  const std::int64_t columns = input.shape()[-1];
  Tensor output = torch::computed(eager, input.shape(), input.dtype());
  Tensor factors = eager.empty({input.elements() / columns}, DType::kFp32);
  if (!record.active()) {
    return output;
  }
  record.save(input);
  record.save(weight);
  record.save(factors);
  factors.reset();
  record.finish(output, [columns](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    Gradients result(2);
    Tensor parts;
    if (node.wants(1)) {
      parts = e.empty({e.device().multiprocessors, columns}, DType::kFp32);
    }
    result[0] = same_memory(e, grads[0]);
    if (node.wants(1)) {
      result[1] = sum_of_parts(e, parts.shape(), saved[1].dtype());
    }
    return result;
  });
  return output;
}

Tensor liger_silu_mul(Eager& eager, const Tensor& gate, const Tensor& up) {
  torch::Record record(eager, {&gate, &up});
  Tensor output = torch::computed(eager, gate.shape(), gate.dtype());
  if (record.active()) {
    record.save(gate);
    record.save(up);
    record.finish(output, [](Eager& e, Gradients&, Node& node) -> Gradients {
      const torch::Unpacked saved(e, node);
      return {same_memory(e, saved[0]), same_memory(e, saved[1])};
    });
  }
  return output;
}

QueryKey liger_rope(Eager& eager, const QueryKey& heads, const RopeTable& table) {
  torch::Record record(eager, {&heads.q, &heads.k});
  QueryKey rotated{same_memory(eager, heads.q), same_memory(eager, heads.k)};
  if (record.active()) {
    record.save(table.cos);
    record.save(table.sin);
    const std::array<Tensor*, 2> outputs = {&rotated.q, &rotated.k};
    record.finish(outputs, [](Eager& e, Gradients& grads, Node&) -> Gradients {
      Tensor q = turned(e, grads[0]);
      return {std::move(q), turned(e, grads[1])};
    });
  }
  return rotated;
}

}  // namespace headroom::ir::transformers
