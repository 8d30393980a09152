#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/graph/param_writer.h"

namespace headroom::ir {
namespace {

/// DeepSeek-V2 and V3: queries, keys and values through normalised latents.
void write_latent_attention(ParameterWriter& writer, const LatentAttention& latent) {
  const ModelSpec& model = writer.model();
  const std::int64_t query = model.heads * (latent.nope_dim + latent.rope_dim);
  if (latent.q_rank == 0) {
    writer.linear(OpRole::kQuery, "self_attn.q_proj", {model.hidden, query});
  } else {
    writer.linear(OpRole::kLatentQueryDown, "self_attn.q_a_proj",
                  {model.hidden, latent.q_rank, model.qkv_bias});
    writer.norm(OpRole::kLatentQueryNorm, "self_attn.q_a_layernorm", latent.q_rank);
    writer.linear(OpRole::kLatentQueryUp, "self_attn.q_b_proj", {latent.q_rank, query});
  }
  writer.linear(OpRole::kLatentKvDown, "self_attn.kv_a_proj_with_mqa",
                {model.hidden, latent.kv_rank + latent.rope_dim, model.qkv_bias});
  writer.norm(OpRole::kLatentKvNorm, "self_attn.kv_a_layernorm", latent.kv_rank);
  writer.linear(OpRole::kLatentKvUp, "self_attn.kv_b_proj",
                {latent.kv_rank, model.heads * (latent.nope_dim + latent.v_dim)});
  writer.linear(OpRole::kAttentionOutput, "self_attn.o_proj",
                {model.heads * latent.v_dim, model.hidden, model.output_bias});
}

void write_norms_per_head(ParameterWriter& writer, OpRole role, const std::string& name,
                          std::int64_t heads) {
  for (std::int64_t head = 0; head < heads; ++head) {
    writer.weight(role, name + ".norms." + std::to_string(head), {writer.model().head_dim});
  }
}

void write_qk_norms(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  const std::int64_t dim = model.head_dim;
  switch (model.qk_norm) {
    case QkNorm::kNone:
      return;
    case QkNorm::kPerHead:
      writer.weight(OpRole::kQueryNorm, "self_attn.q_norm", {dim});
      writer.weight(OpRole::kKeyNorm, "self_attn.k_norm", {dim});
      return;
    case QkNorm::kFull:
      writer.weight(OpRole::kQueryNorm, "self_attn.q_norm", {model.heads * dim});
      writer.weight(OpRole::kKeyNorm, "self_attn.k_norm", {model.kv_heads * dim});
      return;
    case QkNorm::kPerHeadWeights:
      if (model.family == Family::kStablelm) {  // One module per head.
        write_norms_per_head(writer, OpRole::kQueryNorm, "self_attn.q_layernorm", model.heads);
        write_norms_per_head(writer, OpRole::kKeyNorm, "self_attn.k_layernorm", model.kv_heads);
      } else {
        writer.weight(OpRole::kQueryNorm, "self_attn.q_norm", {model.heads, dim});
        writer.weight(OpRole::kKeyNorm, "self_attn.k_norm", {model.kv_heads, dim});
      }
      return;
  }
}

void write_attention(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  writer.set_module(Module::kAttention);
  if (model.latent) {
    write_latent_attention(writer, *model.latent);
    return;
  }
  const std::int64_t query = model.heads * model.head_dim;
  const std::int64_t key = model.kv_heads * model.head_dim;
  if (model.attention_sinks) {
    writer.bare(OpRole::kSinks, "self_attn.sinks", {model.heads});
  }
  const LinearSize output{query, model.hidden, model.output_bias};
  if (model.qkv == QkvLayout::kFused) {  // Phi-3's constructor creates the output projection first.
    writer.linear(OpRole::kAttentionOutput, "self_attn.o_proj", output);
    writer.linear(OpRole::kQkv, "self_attn.qkv_proj",
                  {model.hidden, query + 2 * key, model.qkv_bias});
    return;
  }
  writer.linear(OpRole::kQuery, "self_attn.q_proj", {model.hidden, query, model.qkv_bias});
  writer.linear(OpRole::kKey, "self_attn.k_proj", {model.hidden, key, model.qkv_bias});
  writer.linear(OpRole::kValue, "self_attn.v_proj", {model.hidden, key, model.qkv_bias});
  writer.linear(OpRole::kAttentionOutput, "self_attn.o_proj", output);
  write_qk_norms(writer);
}

void write_dense_mlp(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  const LinearSize up{model.hidden, model.ffn, model.mlp_bias};
  const LinearSize down{model.ffn, model.hidden, model.mlp_bias};
  if (!model.gated_mlp) {  // StarCoder 2
    writer.linear(OpRole::kUp, "mlp.c_fc", up);
    writer.linear(OpRole::kDown, "mlp.c_proj", down);
    return;
  }
  if (model.fused_gate_up) {
    writer.linear(OpRole::kGateUp, "mlp.gate_up_proj", {up.in, 2 * up.out, up.bias});
  } else {
    writer.linear(OpRole::kGate, "mlp.gate_proj", up);
    writer.linear(OpRole::kUp, "mlp.up_proj", up);
  }
  writer.linear(OpRole::kDown, "mlp.down_proj", down);
}

/// Names of a sparse MLP and of the linear layers of each expert that is a module.
struct SparseNames {
  std::string block = "mlp";
  std::array<std::string_view, 3> linears = {"gate_proj", "up_proj", "down_proj"};
  std::array<OpRole, 3> roles = {OpRole::kExpertGate, OpRole::kExpertUp, OpRole::kExpertDown};
};

SparseNames sparse_names(const ParameterWriter& writer) {
  if (writer.model().family == Family::kMixtral && writer.experts() == ExpertWeights::kModules) {
    return {.block = "block_sparse_moe",
            .linears = {"w1", "w2", "w3"},
            .roles = {OpRole::kExpertGate, OpRole::kExpertDown, OpRole::kExpertUp}};
  }
  return {};
}

void write_expert_modules(ParameterWriter& writer, const MoeSpec& moe) {
  const SparseNames names = sparse_names(writer);
  const std::int64_t hidden = writer.model().hidden;
  for (std::int64_t expert = 0; expert < moe.experts; ++expert) {
    const std::string module = names.block + ".experts." + std::to_string(expert) + ".";
    for (std::size_t i = 0; i < names.linears.size(); ++i) {
      const bool down = names.roles[i] == OpRole::kExpertDown;
      writer.linear(names.roles[i], module + std::string(names.linears[i]),
                    {.in = down ? moe.expert_ffn : hidden, .out = down ? hidden : moe.expert_ffn});
    }
  }
}

void write_experts(ParameterWriter& writer, const MoeSpec& moe) {
  const std::int64_t hidden = writer.model().hidden;
  const std::int64_t width = moe.expert_ffn;
  if (!moe.expert_bias && writer.experts() == ExpertWeights::kModules) {
    write_expert_modules(writer, moe);
    return;
  }
  if (!moe.expert_bias) {
    writer.bare(OpRole::kExpertGateUp, "mlp.experts.gate_up_proj",
                {moe.experts, 2 * width, hidden});
    writer.bare(OpRole::kExpertDown, "mlp.experts.down_proj", {moe.experts, hidden, width});
    return;
  }
  // gpt-oss: transposed, because its experts are batched products of tokens and weights.
  writer.bare(OpRole::kExpertGateUp, "mlp.experts.gate_up_proj", {moe.experts, hidden, 2 * width});
  writer.bare(OpRole::kExpertGateUp, "mlp.experts.gate_up_proj_bias", {moe.experts, 2 * width},
              ParameterPart::kBias);
  writer.bare(OpRole::kExpertDown, "mlp.experts.down_proj", {moe.experts, width, hidden});
  writer.bare(OpRole::kExpertDown, "mlp.experts.down_proj_bias", {moe.experts, hidden},
              ParameterPart::kBias);
}

void write_shared_expert(ParameterWriter& writer, const MoeSpec& moe, const std::string& name) {
  const ModelSpec& model = writer.model();
  const LinearSize up{model.hidden, moe.shared_ffn, model.mlp_bias};
  writer.linear(OpRole::kSharedGate, name + ".gate_proj", up);
  writer.linear(OpRole::kSharedUp, name + ".up_proj", up);
  writer.linear(OpRole::kSharedDown, name + ".down_proj",
                {moe.shared_ffn, model.hidden, model.mlp_bias});
}

void write_sparse_mlp(ParameterWriter& writer, const MoeSpec& moe) {
  const ModelSpec& model = writer.model();
  const LinearSize router{model.hidden, moe.experts, moe.router_bias};
  const std::string name =
      model.family == Family::kGptOss ? "mlp.router" : sparse_names(writer).block + ".gate";
  const bool modules = writer.experts() == ExpertWeights::kModules;
  const bool experts_first = (model.family == Family::kQwen3Moe && !modules) ||
                             model.family == Family::kDeepseekV2 ||
                             model.family == Family::kDeepseekV3;
  if (!experts_first) {
    writer.linear(OpRole::kRouter, name, router);
  }
  write_experts(writer, moe);
  if (experts_first) {
    writer.linear(OpRole::kRouter, name, router);
  }
  if (moe.shared_ffn > 0) {
    write_shared_expert(writer, moe, moe.shared_gate ? "mlp.shared_expert" : "mlp.shared_experts");
  }
  if (moe.shared_gate) {
    writer.linear(OpRole::kSharedSigmoid, "mlp.shared_expert_gate", {model.hidden, 1});
  }
}

void write_norms(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  const std::int64_t width = model.hidden;
  switch (model.norm_placement) {
    case NormPlacement::kPre:
    case NormPlacement::kPost:
      writer.norm(OpRole::kAttentionNorm, "input_layernorm", width);
      if (model.residual != ResidualForm::kParallelOneNorm) {
        writer.norm(OpRole::kMlpNorm, "post_attention_layernorm", width);
      }
      return;
    case NormPlacement::kOutput:
      writer.norm(OpRole::kAttentionOutNorm, "post_attention_layernorm", width);
      writer.norm(OpRole::kMlpOutNorm, "post_feedforward_layernorm", width);
      return;
    case NormPlacement::kSandwich:
      break;
  }
  writer.norm(OpRole::kAttentionNorm, "input_layernorm", width);
  if (model.family == Family::kGlm4) {  // Here, "post_attention" comes before the MLP.
    writer.norm(OpRole::kMlpNorm, "post_attention_layernorm", width);
    writer.norm(OpRole::kAttentionOutNorm, "post_self_attn_layernorm", width);
    writer.norm(OpRole::kMlpOutNorm, "post_mlp_layernorm", width);
  } else {
    writer.norm(OpRole::kAttentionOutNorm, "post_attention_layernorm", width);
    writer.norm(OpRole::kMlpNorm, "pre_feedforward_layernorm", width);
    writer.norm(OpRole::kMlpOutNorm, "post_feedforward_layernorm", width);
  }
}

}  // namespace

void write_llama_like(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  writer.embedding(OpRole::kTokenEmbedding, "model.embed_tokens", model.vocabulary, model.hidden);
  if (model.position == PositionKind::kLearned) {
    writer.embedding(OpRole::kPositionTable, "model.embed_positions", model.max_positions,
                     model.hidden);
  }
  std::int32_t index = 0;
  for (const LayerSpec& layer : model.layers) {
    writer.enter_layer("model.layers.", {index, index});
    write_attention(writer);
    writer.set_module(Module::kMlp);
    if (layer.moe && model.moe) {
      write_sparse_mlp(writer, *model.moe);
    } else {
      write_dense_mlp(writer);
    }
    writer.set_module(Module::kNone);
    write_norms(writer);
    ++index;
  }
  writer.leave_layer();
  if (model.final_norm) {
    writer.norm(OpRole::kFinalNorm, "model.norm", model.hidden);
  }
  if (!writer.classifier() && !model.tied_embeddings) {
    writer.set_module(Module::kHead);
    writer.linear(OpRole::kHead, "lm_head", {model.hidden, model.vocabulary});
  }
}

}  // namespace headroom::ir
