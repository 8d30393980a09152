// What the interpreter does for encoders and encoder-decoders alone.

#include <optional>

#include "model_ir/runtime/transformers/forward.h"
#include "model_ir/runtime/transformers/relative_bias.h"

namespace headroom::ir::transformers {

using torch::Tensor;

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
