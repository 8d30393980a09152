#include "model_ir/spec/param_count.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/spec/recording/recording.h"
#include "model_ir/spec/recording/used_parameters.h"
#include "model_ir/spec/task.h"

namespace headroom::ir {
namespace {

/// A Linear of `in` x `out`.
std::int64_t linear(std::int64_t in, std::int64_t out, bool bias) {
  return in * out + (bias ? out : 0);
}

/// A norm over `width` elements.
std::int64_t norm(const ModelSpec& model, std::int64_t width) {
  return model.norm == NormKind::kLayer ? 2 * width : width;
}

std::int64_t qk_norms(const ModelSpec& model) {
  switch (model.qk_norm) {
    case QkNorm::kNone:
      return 0;
    case QkNorm::kPerHead:
      return 2 * model.head_dim;
    case QkNorm::kFull:
    case QkNorm::kPerHeadWeights:
      return (model.heads + model.kv_heads) * model.head_dim;
  }
  return 0;
}

/// DeepSeek-V2, section 2.1: queries and keys/values pass through a narrow, normalised latent.
std::int64_t latent_attention(const ModelSpec& model, const LatentAttention& latent) {
  const std::int64_t query = model.heads * (latent.nope_dim + latent.rope_dim);
  const std::int64_t queries = latent.q_rank == 0
                                   ? linear(model.hidden, query, false)
                                   : linear(model.hidden, latent.q_rank, model.qkv_bias) +
                                         latent.q_rank + linear(latent.q_rank, query, false);
  const std::int64_t keys_values =
      linear(model.hidden, latent.kv_rank + latent.rope_dim, model.qkv_bias) + latent.kv_rank +
      linear(latent.kv_rank, model.heads * (latent.nope_dim + latent.v_dim), false);
  return queries + keys_values +
         linear(model.heads * latent.v_dim, model.hidden, model.output_bias);
}

std::int64_t attention(const ModelSpec& model) {
  if (model.latent) {
    return latent_attention(model, *model.latent);
  }
  const std::int64_t query = model.heads * model.head_dim;
  const std::int64_t key = model.kv_heads * model.head_dim;
  return linear(model.hidden, query + 2 * key, model.qkv_bias) +
         linear(query, model.hidden, model.output_bias) + qk_norms(model) +
         (model.attention_sinks ? model.heads : 0);
}

std::int64_t mlp(const ModelSpec& model, std::int64_t width, bool bias) {
  return linear(model.hidden, (model.gated_mlp ? 2 : 1) * width, bias) +
         linear(width, model.hidden, bias);
}

std::int64_t norms_per_block(const ModelSpec& model) {
  if (model.residual == ResidualForm::kParallelOneNorm) {
    return 1;
  }
  return model.norm_placement == NormPlacement::kSandwich ? 4 : 2;
}

std::int64_t elements_of(const RecordedParameter& parameter) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : parameter.dims) {
    elements *= dim;
  }
  return elements;
}

/// Parameters of the largest layer of a recording, all in `mlp`: their modules have no fixed names.
LayerParameters largest_recorded_layer(const ModelSpec& model) {
  std::vector<std::int64_t> layers(model.layers.size());
  for (const RecordedParameter& parameter : model.recording->parameters) {
    if (parameter.layer >= 0 && static_cast<std::size_t>(parameter.layer) < layers.size()) {
      layers[static_cast<std::size_t>(parameter.layer)] += elements_of(parameter);
    }
  }
  LayerParameters count;
  count.mlp = layers.empty() ? 0 : *std::max_element(layers.begin(), layers.end());
  return count;
}

ParameterCount count_recorded(const Recording& recording) {
  ParameterCount count;
  const RecordedUse use = use_of(recording);
  for (std::size_t index = 0; index < recording.parameters.size(); ++index) {
    const RecordedParameter& parameter = recording.parameters[index];
    const std::string& type = recording.modules[parameter.module].type;
    std::int64_t& part = parameter.layer >= 0                          ? count.layers
                         : type.find("Embedding") != std::string::npos ? count.token_embedding
                         : type == "Linear"                            ? count.head
                                                                       : count.final_norm;
    part += elements_of(parameter);
    if (&part != &count.token_embedding) {
      std::int64_t& idle = use.elements[index] == 0 ? count.idle_modules : count.idle_experts;
      idle += elements_of(parameter) - use.elements[index];
    }
  }
  return count;
}

}  // namespace

LayerParameters layer_parameters(const ModelSpec& model, const LayerSpec& layer, Stack stack) {
  if (model.recording) {
    return largest_recorded_layer(model);
  }
  LayerParameters count;
  count.attention = attention(model);
  count.norms = norms_per_block(model) * norm(model, model.hidden);
  if (model.encoder && stack == Stack::kDecoder) {
    count.cross_attention = count.attention;
    count.norms += norm(model, model.hidden);
  }
  if (!layer.moe || !model.moe) {
    count.mlp = mlp(model, model.ffn, model.mlp_bias);
    return count;
  }
  const MoeSpec& moe = *model.moe;
  const std::int64_t expert = mlp(model, moe.expert_ffn, moe.expert_bias);
  count.mlp = linear(model.hidden, moe.experts, moe.router_bias) + moe.experts * expert +
              mlp(model, moe.shared_ffn, model.mlp_bias && moe.shared_ffn > 0) +
              (moe.shared_gate ? model.hidden : 0);
  count.idle_experts = (moe.experts - moe.top_k) * expert;
  return count;
}

std::int64_t largest_layer(const ModelSpec& model) {
  const std::int64_t dense = layer_parameters(model, LayerSpec{.moe = false, .window = {}}).total();
  const std::int64_t sparse = layer_parameters(model, LayerSpec{.moe = true, .window = {}}).total();
  return std::max(dense, sparse);
}

ParameterCount count_parameters(const ModelSpec& model) {
  if (model.recording) {
    return count_recorded(*model.recording);
  }
  ParameterCount count;
  count.token_embedding = model.vocabulary * model.embedding_dim;
  count.position_embedding = (model.position_rows + model.token_types) * model.hidden +
                             (model.encoder ? 2 : 1) * model.relative_buckets * model.heads;
  count.embedding_other = model.embedding_norm ? norm(model, model.hidden) : 0;
  if (model.embedding_dim != model.hidden) {
    count.embedding_other += 2 * linear(model.hidden, model.embedding_dim, false);
  }
  for (const LayerSpec& layer : model.layers) {
    const LayerParameters parameters = layer_parameters(model, layer);
    count.layers += parameters.total();
    count.idle_experts += parameters.idle_experts;
  }
  count.final_norm = model.final_norm ? norm(model, model.hidden) : 0;
  if (model.encoder) {
    count.layers +=
        model.encoder->layers * layer_parameters(model, LayerSpec{}, Stack::kEncoder).total();
    count.final_norm *= 2;
  }
  if (const std::optional<ClassifierForm> form = classifier_form(model.family, model.task)) {
    count.head = linear(model.embedding_dim, model.labels, form->bias) +
                 (form->pools ? linear(model.hidden, model.hidden, true) : 0);
    return count;
  }
  if (!model.tied_embeddings) {
    count.head += model.vocabulary * model.embedding_dim;
  }
  if (model.head_bias) {
    // An untied BERT decoder has its own bias in addition to the head's.
    count.head += (model.tied_embeddings ? 1 : 2) * model.vocabulary;
  }
  if (model.head_transform) {
    count.head += linear(model.hidden, model.hidden, true) + norm(model, model.hidden);
  }
  return count;
}

}  // namespace headroom::ir
