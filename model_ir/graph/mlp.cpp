#include <utility>

#include "model_ir/graph/sublayers.h"

namespace headroom::ir {
namespace {

/// The roles of a gated MLP's linears: the layer's own or its shared expert's.
struct GatedRoles {
  OpRole gate;
  OpRole up;
  OpRole down;
};

TensorId multiply(GraphBuilder& builder, TensorId left, TensorId right) {
  return builder.same_width("product", {.kind = OpKind::kMultiply, .inputs = {left, right}});
}

TensorId build_gated(GraphBuilder& builder, const GatedRoles& roles, TensorId hidden) {
  const TensorId gate = builder.act(builder.linear(roles.gate, "gate", hidden));
  const TensorId up = builder.linear(roles.up, "up", hidden);
  const TensorId product = multiply(builder, gate, up);
  const TensorId dropped = builder.dropout(product, builder.model().dropout.activation);
  return builder.linear(roles.down, "mlp_out", dropped);
}

/// Phi-3 and GLM-4: one matrix, whose output is split in two.
TensorId build_fused_gated(GraphBuilder& builder, TensorId hidden) {
  const TensorId fused = builder.linear(OpRole::kGateUp, "gate_up", hidden);
  const std::int64_t half = builder.width(fused) / 2;
  const TensorId gate = builder.activation("gate", half);
  const TensorId up = builder.activation("up", half);
  builder.add({.kind = OpKind::kSplitGateUp, .inputs = {fused}, .outputs = {gate, up}});
  const TensorId product = multiply(builder, up, builder.act(gate));
  return builder.linear(OpRole::kDown, "mlp_out", product);
}

TensorId build_plain(GraphBuilder& builder, TensorId hidden) {
  const TensorId up = builder.linear(OpRole::kUp, "up", hidden);
  const TensorId dropped = builder.dropout(builder.act(up), builder.model().dropout.activation);
  return builder.linear(OpRole::kDown, "mlp_out", dropped);
}

RouterForm router_form(Family family) {
  switch (family) {
    case Family::kMixtral:
      return RouterForm::kSoftmaxFp32;
    case Family::kGptOss:
      return RouterForm::kSoftmaxOfChosen;
    case Family::kDeepseekV2:
      return RouterForm::kWideSoftmax;
    case Family::kDeepseekV3:
      return RouterForm::kWideSigmoid;
    default:
      return RouterForm::kSoftmax;
  }
}

/// The weights of all experts: if fused, each with its bias; otherwise gate, up and down of each
/// expert.
std::vector<TensorId> expert_parameters(const GraphBuilder& builder) {
  std::vector<TensorId> experts = builder.parameters(OpRole::kExpertGateUp);
  const std::vector<TensorId> gates = builder.parameters(OpRole::kExpertGate);
  const std::vector<TensorId> ups = builder.parameters(OpRole::kExpertUp);
  const std::vector<TensorId> downs = builder.parameters(OpRole::kExpertDown);
  if (gates.empty()) {
    experts.insert(experts.end(), downs.begin(), downs.end());
    return experts;
  }
  for (std::size_t expert = 0; expert < gates.size(); ++expert) {
    experts.insert(experts.end(), {gates[expert], ups[expert], downs[expert]});
  }
  return experts;
}

TensorId build_routed(GraphBuilder& builder, const MoeSpec& moe, TensorId hidden) {
  const std::int64_t tokens = builder.shape().batch * builder.shape().sequence;
  const TensorId weights = builder.tensor("expert_weights", {tokens, moe.top_k});
  const TensorId indices = builder.tensor("expert_indices", {tokens, moe.top_k});
  builder.add({.kind = OpKind::kRouter,
               .role = OpRole::kRouter,
               .inputs = {hidden},
               .parameters = builder.parameters(OpRole::kRouter),
               .outputs = {weights, indices},
               .router = router_form(builder.model().family)});
  return builder.same_width(
      "experts_out",
      {.kind = OpKind::kExperts,
       .inputs = {hidden, weights, indices},
       .parameters = expert_parameters(builder),
       .activation = builder.model().activation,
       .gate = moe.expert_bias ? ExpertGate::kInterleavedClamped : ExpertGate::kHalves});
}

TensorId build_sparse(GraphBuilder& builder, const MoeSpec& moe, TensorId hidden) {
  constexpr GatedRoles kShared{OpRole::kSharedGate, OpRole::kSharedUp, OpRole::kSharedDown};
  if (moe.shared_ffn == 0) {
    return build_routed(builder, moe, hidden);
  }
  if (!moe.shared_gate) {  // DeepSeek
    const TensorId routed = build_routed(builder, moe, hidden);
    return builder.add_residual(routed, build_gated(builder, kShared, hidden));
  }
  // Qwen2-MoE runs the shared expert first; where the experts are modules, it runs after them. Its
  // gate comes last.
  const bool last = builder.experts() == ExpertWeights::kModules;
  TensorId routed = last ? build_routed(builder, moe, hidden) : TensorId{};
  const TensorId shared = build_gated(builder, kShared, hidden);
  routed = last ? routed : build_routed(builder, moe, hidden);
  const TensorId gated = builder.activation("shared_out", builder.width(shared));
  builder.add({.kind = OpKind::kSharedGate,
               .role = OpRole::kSharedSigmoid,
               .inputs = {hidden, shared},
               .parameters = builder.parameters(OpRole::kSharedSigmoid),
               .outputs = {gated}});
  return builder.add_residual(routed, gated);
}

}  // namespace

TensorId build_mlp(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden) {
  const ModelSpec& model = builder.model();
  if (layer.moe && model.moe) {
    return build_sparse(builder, *model.moe, hidden);
  }
  if (!model.gated_mlp) {
    return build_plain(builder, hidden);
  }
  return model.fused_gate_up
             ? build_fused_gated(builder, hidden)
             : build_gated(builder, {OpRole::kGate, OpRole::kUp, OpRole::kDown}, hidden);
}

}  // namespace headroom::ir
