#include "costmodel/time/model_flops.h"

#include <algorithm>

#include "model_ir/spec/param_count.h"

namespace headroom::cost {
namespace {

/// Parameters that every token is multiplied by.
double multiplied(const ir::ModelSpec& model) {
  const ir::ParameterCount count = ir::count_parameters(model);
  const std::int64_t lookups =
      count.position_embedding + (model.tied_embeddings ? 0 : count.token_embedding);
  return static_cast<double>(count.active() - lookups);
}

/// Sums of the head sizes of keys and of values, over all heads.
double attention_width(const ir::ModelSpec& model) {
  const auto heads = static_cast<double>(model.heads);
  if (model.latent) {
    const ir::LatentAttention& latent = *model.latent;
    return heads * static_cast<double>(latent.nope_dim + latent.rope_dim + latent.v_dim);
  }
  return heads * static_cast<double>(2 * model.head_dim);
}

}  // namespace

double model_flops_per_token(const ir::ModelSpec& model, std::int64_t sequence,
                             AttentionCount count) {
  double keys = 0;
  for (const ir::LayerSpec& layer : model.layers) {
    const std::int64_t window = layer.window.value_or(sequence);
    const bool halved = count == AttentionCount::kSeenKeys && window >= sequence;
    keys += static_cast<double>(std::min(window, sequence)) * (halved ? 0.5 : 1);
  }
  if (model.encoder) {  // Its own layers, and the decoder's second attention.
    const auto layers =
        static_cast<double>(model.encoder->layers) + static_cast<double>(model.layers.size());
    keys += layers * static_cast<double>(sequence);
  }
  return 6 * multiplied(model) + 6 * attention_width(model) * keys;
}

}  // namespace headroom::cost
