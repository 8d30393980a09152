// What the interpreter does for encoders and encoder-decoders alone.

#include <optional>

#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/launch.h"
#include "model_ir/runtime/torch/record.h"
#include "model_ir/runtime/torch/reduce.h"
#include "model_ir/runtime/transformers/forward.h"
#include "model_ir/runtime/transformers/relative_bias.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Tensor;

namespace {

/// torch.where(torch.isinf(x).any(), ..., ...): the bound that T5Block clamps fp16 states with.
Tensor finite_bound(Eager& eager, const Tensor& x) {
  Tensor size = torch::computed(eager, x.shape(), x.dtype(), {&x});  // isinf: |x| == inf
  Tensor infinite = torch::computed(eager, x.shape(), DType::kBool, {&size});
  size.reset();
  const Tensor any = torch::reduce(eager, {}, DType::kBool,
                                   {.outputs = 1,
                                    .inputs_per_output = x.elements(),
                                    .innermost = true,
                                    .accumulator_bytes = 1,
                                    .element_bytes = 1});
  infinite.reset();
  const Tensor lower = torch::computed(eager, {}, DType::kFp32);
  const Tensor greatest = torch::computed(eager, {}, DType::kFp32);
  return torch::computed(eager, {}, DType::kFp32, {&any, &lower, &greatest});
}

/// torch.clamp(x, min=-bound, max=bound), which keeps all three.
Tensor clamp(Eager& eager, const Tensor& x, const Tensor& bound) {
  const Tensor least = torch::computed(eager, {}, DType::kFp32, {&bound});
  torch::Record record(eager, {&x});
  record.save(x);
  record.save(least);
  record.save(bound);
  Tensor output = torch::computed(eager, x.shape(), x.dtype(), {&x});
  if (record.active()) {
    record.finish(output,
                  [](Eager& e, torch::Gradients& grads, torch::Node& node) -> torch::Gradients {
                    const torch::Unpacked saved(e, node);
                    const torch::Shape& shape = grads[0].shape();
                    const Tensor zero = torch::computed(e, {}, grads[0].dtype());
                    const Tensor above = torch::computed(e, shape, DType::kBool, {&saved[0]});
                    const Tensor below = torch::computed(e, shape, DType::kBool, {&saved[0]});
                    return {torch::computed(e, shape, grads[0].dtype(), {&grads[0], &above})};
                  });
  }
  return output;
}

}  // namespace

std::optional<Interpreter::Holder> Interpreter::bidirectional_holder(const Op& op,
                                                                     TensorId input) const {
  const bool in_module = op.module != Module::kNone && op.module != Module::kHead;
  const bool entered = in_module && entered_[index_of(input)];
  if (modeling_.normed == NormedName::kAttention && entered &&
      made_here(input, op.layer, OpKind::kNorm)) {
    const Op& norm = model_.graph->op(*producers_[index_of(input)]);
    return norm.role == OpRole::kMlpNorm ? Holder::kCaller : Holder::kAddition;
  }
  if (entered) {
    // BERT's layer has a name for what its MLP is given.
    return modeling_.nests_modules && op.module == Module::kMlp ? std::optional(Holder::kLayer)
                                                                : std::nullopt;
  }
  if (modeling_.nests_modules && in_module) {
    if (op.role == OpRole::kAttentionOutput || op.role == OpRole::kDown) {
      return Holder::kModule;  // A name of the outer module, between the inner two.
    }
    return op.kind == OpKind::kAdd ? Holder::kNorm : Holder::kNobody;
  }
  if (modeling_.names_gate && op.kind == OpKind::kMultiply) {
    return Holder::kModule;
  }
  const bool added =
      op.kind == OpKind::kDropout || (op.kind == OpKind::kAdd && input == op.inputs[0]);
  if (modeling_.drops_in_sum && op.layer >= 0 && !in_module && added) {
    return Holder::kAddition;
  }
  return std::nullopt;
}

/// T5LayerSelfAttention assigns its sum to the name of what was added; the other sub-layers have a
/// name for the sum, and let the addend go when they return.
bool Interpreter::is_reassigned(const Op& op, TensorId input) const {
  const std::optional<NodeId>& producer = producers_[index_of(input)];
  return modeling_.drops_in_sum && op.kind == OpKind::kDropout && producer &&
         model_.graph->op(*producer).module == Module::kAttention;
}

/// "clamp inf values to enable fp16 training": what a T5 sub-layer returns, unless an fp32 `wo` of
/// the layer before has widened it.
void Interpreter::keep_finite(const Op& op) {
  if (!modeling_.widens_down || op.kind != OpKind::kAdd || op.layer < 0 ||
      op.module != Module::kNone) {
    return;
  }
  Tensor& hidden = values_[index_of(op.outputs[0])];
  if (hidden.dtype() == DType::kFp16) {
    hidden = clamp(eager_, hidden, finite_bound(eager_, hidden));
  }
}

/// The bias that a T5 attention is given, or makes from its table or of zeros, for later layers
/// too.
Tensor Interpreter::position_bias(const Op& op, const Tensor& q, const Tensor& k) {
  Tensor& bias = op.module == Module::kCrossAttention ? shared_.cross_bias : shared_.position_bias;
  const std::int64_t queries = q.shape()[2];
  const std::int64_t keys = k.shape()[2];
  if (!bias.defined() && !op.parameters.empty()) {
    bias = relative_bias(eager_, parameter(op, 0),
                         {.queries = queries, .keys = keys, .causal = op.causal});
  } else if (!bias.defined()) {
    bias = eager_.empty({1, q.shape()[1], queries, keys}, q.dtype());
    bias->requires_grad = recomputes(model_);  // position_bias.requires_grad = True
  }
  return bias;
}

}  // namespace headroom::ir::transformers
