#include "runtimes/transformers/liger.h"

#include <array>
#include <utility>
#include <vector>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"
#include "runtimes/transformers/modeling.h"

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

Tensor swapped_copy(Eager& eager, const Tensor& heads) {
  Tensor copy = torch::computed(eager, heads.shape(), heads.dtype());
  copy->layout = torch::Layout::kSwapped;
  return copy;
}

/// Heads as [B, S, A, D]: copied unless memory has this order.
Tensor turned(Eager& eager, const Tensor& heads) {
  return heads->layout == torch::Layout::kSwapped ? same_memory(eager, heads)
                                                  : swapped_copy(eager, heads);
}

/// `tensor.contiguous()`
Tensor laid_out(Eager& eager, const Tensor& tensor) {
  return tensor->layout == torch::Layout::kContiguous
             ? tensor
             : torch::computed(eager, tensor.shape(), tensor.dtype(), {&tensor});
}

}  // namespace

std::optional<Error> liger_trouble(const ModelSpec& spec) {
  const Modeling modeling = modeling_of(spec.family);
  const bool norms = spec.norm == NormKind::kRms || spec.norm == NormKind::kRmsFp32 ||
                     spec.norm == NormKind::kRmsGemma;
  const bool gated = spec.gated_mlp && (spec.activation == Activation::kSilu ||
                                        spec.activation == Activation::kGeluTanh);
  const bool rotates = spec.rope_fraction == 1.0 && !spec.rope_interleaved;
  if (spec.architecture == Architecture::kCausalLm && norms && gated && !spec.latent && !spec.moe &&
      spec.position == PositionKind::kRope && (rotates || !modeling.liger_rotates)) {
    return std::nullopt;
  }
  return Error::invalid_argument(
      "liger", "for " + spec.name,
      "a dense decoder with RMS norms, a gated MLP and rotary embedding on whole heads, for which "
      "Liger is modelled",
      "leave out --liger");
}

Tensor liger_rms_norm(Eager& eager, const Tensor& given, const Tensor& weight, bool in_place) {
  torch::Record record(eager, {&given, &weight});
  const Tensor input = laid_out(eager, given);
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
  record.finish(output, [columns, in_place](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    const Tensor gradient = laid_out(e, grads[0]);
    Gradients result(2);
    Tensor parts;
    if (node.wants(1)) {
      parts = e.empty({e.device().multiprocessors, columns}, DType::kFp32);
    }
    result[0] =
        in_place ? same_memory(e, gradient) : torch::filled(e, gradient.shape(), gradient.dtype());
    if (!in_place) {
      result[0]->tracked_view = true;  // dX.view(*shape)
    }
    if (node.wants(1)) {
      result[1] = sum_of_parts(e, parts.shape(), saved[1].dtype());
    }
    return result;
  });
  return output;
}

Tensor liger_gate(Eager& eager, const Tensor& gate, const Tensor& up, LigerOperands operands) {
  torch::Record record(eager, {&gate, &up});
  Tensor left = gate;
  Tensor right = up;
  if (operands == LigerOperands::kParts) {  // ensure_contiguous
    left = torch::computed(eager, gate.shape(), gate.dtype(), {&gate});
    right = torch::computed(eager, up.shape(), up.dtype(), {&up});
  }
  Tensor output = torch::computed(eager, gate.shape(), gate.dtype());
  if (record.active()) {
    record.save(left);
    record.save(right);
    record.finish(output, [](Eager& e, Gradients&, Node& node) -> Gradients {
      const torch::Unpacked saved(e, node);
      return {same_memory(e, saved[0]), same_memory(e, saved[1])};
    });
  }
  return output;
}

QueryKey liger_rope(Eager& eager, const QueryKey& heads, const RopeTable& table,
                    LigerOperands operands) {
  torch::Record record(eager, {&heads.q, &heads.k});
  const auto rotated_of = [&](const Tensor& tensor) {
    const bool copies = operands == LigerOperands::kParts;
    return copies ? swapped_copy(eager, tensor) : turned(eager, tensor);
  };
  QueryKey rotated;
  rotated.q = rotated_of(heads.q);
  rotated.k = rotated_of(heads.k);
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
