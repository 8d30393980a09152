#include <utility>

#include "model_ir/graph/sublayers.h"

namespace headroom::ir {
namespace {

struct Qkv {
  TensorId q;
  TensorId k;
  TensorId v;
};

/// The norm of queries runs right after their projection (Qwen3, OLMo 2), not after all three.
bool norms_between_projections(const ModelSpec& model) {
  return model.family == Family::kQwen3 || model.family == Family::kQwen3Moe ||
         model.family == Family::kOlmo2;
}

Qkv project_separately(GraphBuilder& builder, const AttentionForm& form, TensorId hidden) {
  const ModelSpec& model = builder.model();
  const TensorId memory = form.memory.value_or(hidden);
  const bool norms = model.qk_norm != QkNorm::kNone;
  const bool between = norms && norms_between_projections(model);
  Qkv qkv{};
  qkv.q = builder.linear(OpRole::kQuery, "query", hidden);
  if (between) {
    qkv.q = builder.head_norm(OpRole::kQueryNorm, qkv.q);
  }
  if (model.family == Family::kOpt) {  // It scales the queries itself, so attention does not.
    qkv.q = builder.scale(OpRole::kQuery, qkv.q);
  }
  qkv.k = builder.linear(OpRole::kKey, "key", memory);
  if (between) {
    qkv.k = builder.head_norm(OpRole::kKeyNorm, qkv.k);
  }
  qkv.v = builder.linear(OpRole::kValue, "value", memory);
  if (norms && !between) {
    qkv.q = builder.head_norm(OpRole::kQueryNorm, qkv.q);
    qkv.k = builder.head_norm(OpRole::kKeyNorm, qkv.k);
  }
  return qkv;
}

Qkv project_fused(GraphBuilder& builder, TensorId hidden) {
  const ModelSpec& model = builder.model();
  const TensorId fused = builder.linear(OpRole::kQkv, "qkv", hidden);
  const Qkv qkv{.q = builder.activation("query", model.heads * model.head_dim),
                .k = builder.activation("key", model.kv_heads * model.head_dim),
                .v = builder.activation("value", model.kv_heads * model.head_dim)};
  builder.add({.kind = OpKind::kSplitQkv, .inputs = {fused}, .outputs = {qkv.q, qkv.k, qkv.v}});
  return qkv;
}

/// DeepSeek-V2, section 2.1 (arXiv:2405.04434). Rotation is part of kLatentQkv because it changes
/// only the rope parts of queries and keys.
Qkv project_latent(GraphBuilder& builder, const LatentAttention& latent, TensorId hidden) {
  const ModelSpec& model = builder.model();
  TensorId query{};
  if (latent.q_rank == 0) {
    query = builder.linear(OpRole::kQuery, "query", hidden);
  } else {
    query = builder.linear(OpRole::kLatentQueryDown, "latent_query", hidden);
    query = builder.norm(OpRole::kLatentQueryNorm, query);
    query = builder.linear(OpRole::kLatentQueryUp, "query", query);
  }
  const TensorId compressed = builder.linear(OpRole::kLatentKvDown, "latent_kv", hidden);
  const TensorId normed = builder.norm(OpRole::kLatentKvNorm, compressed);
  const TensorId expanded = builder.linear(OpRole::kLatentKvUp, "expanded_kv", normed);
  const std::int64_t width = model.heads * (latent.nope_dim + latent.rope_dim);
  const Qkv qkv{.q = builder.activation("query", width),
                .k = builder.activation("key", width),
                .v = builder.activation("value", model.heads * latent.v_dim)};
  builder.add({.kind = OpKind::kLatentQkv,
               .inputs = {query, compressed, expanded},
               .outputs = {qkv.q, qkv.k, qkv.v}});
  return qkv;
}

Qkv rotate(GraphBuilder& builder, const Qkv& qkv) {
  const Qkv rotated{.q = builder.activation("rotated_query", builder.width(qkv.q)),
                    .k = builder.activation("rotated_key", builder.width(qkv.k)),
                    .v = qkv.v};
  builder.add({.kind = OpKind::kRope, .inputs = {qkv.q, qkv.k}, .outputs = {rotated.q, rotated.k}});
  return rotated;
}

/// Falcon passes no dropout to its rotary attention, only to its ALiBi attention.
double attention_dropout(const ModelSpec& model) {
  const bool rotary_falcon =
      model.family == Family::kFalcon && model.position != PositionKind::kAlibi;
  return rotary_falcon ? 0 : model.dropout.attention;
}

TensorId attend(GraphBuilder& builder, const AttentionForm& form, const Qkv& qkv) {
  const ModelSpec& model = builder.model();
  const std::int64_t value_dim = model.latent ? model.latent->v_dim : model.head_dim;
  std::vector<TensorId> parameters = builder.parameters(OpRole::kSinks);
  if (form.relative_bias) {
    parameters.push_back(*form.relative_bias);
  }
  const TensorId output = builder.activation("context", model.heads * value_dim);
  builder.add({.kind = OpKind::kAttention,
               .inputs = {qkv.q, qkv.k, qkv.v},
               .parameters = std::move(parameters),
               .outputs = {output},
               .probability = attention_dropout(model),
               .window = form.window,
               .causal = form.causal});
  return output;
}

}  // namespace

TensorId build_attention(GraphBuilder& builder, const AttentionForm& form, TensorId hidden) {
  const ModelSpec& model = builder.model();
  Qkv qkv{};
  if (model.latent) {
    qkv = project_latent(builder, *model.latent, hidden);
  } else {
    qkv = model.qkv == QkvLayout::kSeparate ? project_separately(builder, form, hidden)
                                            : project_fused(builder, hidden);
    if (model.position == PositionKind::kRope) {
      qkv = rotate(builder, qkv);
    }
  }
  const TensorId context = attend(builder, form, qkv);
  return builder.linear(OpRole::kAttentionOutput, "attention_out", context);
}

}  // namespace headroom::ir
