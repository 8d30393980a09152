#include "costmodel/time/model_flops.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "model_ir/spec/param_count.h"
#include "model_ir/spec/recording/recording.h"
#include "model_ir/spec/recording/used_parameters.h"

namespace headroom::cost {
namespace {

/// Parameters that multiply every token.
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

/// The encoder of a model that writes down what it hears, which has its own number of positions.
struct Heard {
  double parameters = 0;
  double layers = 0;
  double positions = 0;  ///< Positions of the encoder for each sequence.
};

std::optional<Heard> heard_by(const ir::ModelSpec& model) {
  constexpr std::string_view kLayers = "encoder.layers.";
  if (!model.recording || model.recording->task != ir::kSpeechTask) {
    return std::nullopt;
  }
  Heard heard;
  for (const ir::RecordedParameter& one : model.recording->parameters) {
    if (one.name.find("encoder.") == std::string::npos) {
      continue;
    }
    if (one.name.find("embed_positions") != std::string::npos) {
      heard.positions = static_cast<double>(one.dims.front());
      continue;
    }
    double elements = 1;
    for (const std::int64_t dim : one.dims) {
      elements *= static_cast<double>(dim);
    }
    heard.parameters += elements;
  }
  for (const ir::RecordedModule& one : model.recording->modules) {
    const std::size_t at = one.path.find(kLayers);
    heard.layers +=
        at != std::string::npos && one.path.find('.', at + kLayers.size()) == std::string::npos;
  }
  return heard;
}

}  // namespace

double model_flops_per_token(const ir::ModelSpec& model, std::int64_t sequence,
                             AttentionCount count, std::int64_t mtp_layers) {
  if (mtp_layers > 0) {
    ir::ModelSpec longer = model;
    longer.layers.insert(longer.layers.end(), static_cast<std::size_t>(mtp_layers),
                         model.layers.back());
    const double hidden = static_cast<double>(model.hidden);
    const double beside = hidden * (2 * hidden + static_cast<double>(model.vocabulary));
    return model_flops_per_token(longer, sequence, count) +
           6 * static_cast<double>(mtp_layers) * beside;
  }
  double keys = 0;
  for (const ir::LayerSpec& layer : model.layers) {
    const std::int64_t window = layer.window.value_or(sequence);
    const bool halved = count == AttentionCount::kSeenKeys && window >= sequence;
    keys += static_cast<double>(std::min(window, sequence)) * (halved ? 0.5 : 1);
  }
  if (const std::optional<Heard> heard = heard_by(model)) {
    const double per_token = heard->positions / static_cast<double>(sequence);
    const double layers = static_cast<double>(model.layers.size()) - heard->layers;
    const double seen = layers * (static_cast<double>(sequence) + heard->positions) +
                        heard->layers * heard->positions * per_token;
    return 6 * (multiplied(model) + heard->parameters * (per_token - 1)) +
           6 * attention_width(model) * seen;
  }
  if (model.encoder) {  // Its own layers, and the decoder's second attention.
    const auto layers =
        static_cast<double>(model.encoder->layers) + static_cast<double>(model.layers.size());
    keys += layers * static_cast<double>(sequence);
  }
  if (model.recording && !model.layers.empty()) {
    const auto attending = static_cast<double>(use_of(*model.recording).attending_layers);
    keys *= std::min(1.0, attending / static_cast<double>(model.layers.size()));
  }
  return 6 * multiplied(model) + 6 * attention_width(model) * keys;
}

double weight_gradient_flops_per_token(const ir::ModelSpec& model, std::int64_t sequence) {
  if (const std::optional<Heard> heard = heard_by(model)) {
    const double per_token = heard->positions / static_cast<double>(sequence);
    return 2 * (multiplied(model) + heard->parameters * (per_token - 1));
  }
  return 2 * multiplied(model);
}

}  // namespace headroom::cost
