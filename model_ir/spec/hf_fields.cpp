#include "model_ir/spec/hf_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model_ir/spec/param_count.h"

namespace headroom::ir {
namespace {

constexpr std::size_t kMostDivisors = 12;  ///< Divisors named in a suggested fix.

struct NamedActivation {
  std::string_view name;
  Activation activation;
};

/// Names of huggingface/transformers src/transformers/activations.py (ACT2FN).
constexpr std::array<NamedActivation, 8> kActivations{{{"silu", Activation::kSilu},
                                                       {"swish", Activation::kSilu},
                                                       {"gelu", Activation::kGelu},
                                                       {"gelu_python", Activation::kGelu},
                                                       {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                                       {"gelu_new", Activation::kGeluNew},
                                                       {"gelu_fast", Activation::kGeluFast},
                                                       {"relu", Activation::kRelu}}};

struct NamedDType {
  std::string_view name;
  DType dtype;
};

/// Names of torch's types as `dtype` and `torch_dtype` spell them.
constexpr std::array<NamedDType, 8> kDTypes{{{"float32", DType::kFp32},
                                             {"float", DType::kFp32},
                                             {"bfloat16", DType::kBf16},
                                             {"float16", DType::kFp16},
                                             {"half", DType::kFp16},
                                             {"float64", DType::kFp64},
                                             {"float8_e4m3fn", DType::kFp8},
                                             {"float8_e5m2", DType::kFp8}}};

std::string divisors_of(std::int64_t number) {
  std::vector<std::string> found;
  for (std::int64_t d = 1; d <= number && found.size() < kMostDivisors; ++d) {
    if (number % d == 0) {
      found.push_back(std::to_string(d));
    }
  }
  std::string list = "use ";
  for (std::size_t i = 0; i < found.size(); ++i) {
    list += i == 0 ? "" : (i + 1 == found.size() ? " or " : ", ");
    list += found[i];
  }
  return list;
}

std::string quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

/// The names of a field that the file uses, all with the same value; nothing if it uses none.
std::optional<std::string_view> used_name(const JsonObject& json,
                                          std::initializer_list<std::string_view> names,
                                          IntegerRange range) {
  std::optional<std::string_view> used;
  for (const std::string_view name : names) {
    if (!json.has(name)) {
      continue;
    }
    if (!used) {
      used = name;
    } else if (json.optional_integer(name, range) != json.optional_integer(*used, range)) {
      json.refuse(name,
                  "the same value as " + quoted(*used) + ", which is another name of this key",
                  "remove " + quoted(name) + " or " + quoted(*used));
    }
  }
  return used;
}

/// Numbers that a model multiplies or divides by.
constexpr NumberRange kAnyFactor{0.0, 1e12};

RotaryScaling rotary_scaling(std::string_view name) {
  if (name == "default" || name.empty()) {
    return RotaryScaling::kNone;
  }
  return name == "linear"   ? RotaryScaling::kLinear
         : name == "llama3" ? RotaryScaling::kLlama3
         : name == "yarn"   ? RotaryScaling::kYarn
                            : RotaryScaling::kOther;
}

/// Reads what `rope_scaling` of older files, or `rope_parameters` of newer ones, say.
void read_rotary_object(const JsonObject& rope, RotarySpec& rotary) {
  for (const std::string& key : rope.keys()) {
    rope.accept(key);
  }
  if (const auto base = rope.optional_number("rope_theta", kAnyFactor)) {
    rotary.base = base;
  }
  const std::string_view key = rope.has("rope_type") ? "rope_type" : "type";
  if (!rope.has(key)) {
    return;  // Without scaling, or with an object for each kind of layer (Gemma 3).
  }
  const auto number = [&rope](std::string_view name, double usual) {
    return rope.optional_number(name, kAnyFactor).value_or(usual);
  };
  rotary.scaling = rotary_scaling(rope.text_or(key, ""));
  rotary.factor = number("factor", rotary.factor);
  rotary.trained_positions =
      rope.integer_or("original_max_position_embeddings", 0, {0, kDimension.greatest});
  rotary.mscale = number("mscale", rotary.mscale);
  rotary.mscale_all = number("mscale_all_dim", rotary.mscale_all);
  rotary.usual_bounds = number("beta_fast", 32) == 32 && number("beta_slow", 1) == 1 &&
                        number("low_freq_factor", 1) == 1 && number("high_freq_factor", 4) == 4;
}

/// A factor of a product that may be too large, and its name in messages.
struct Factor {
  std::string_view name;
  std::int64_t value;
};

/// Refuses heads with an odd number of rotated elements, because rotation works on pairs.
void check_rotation(const ModelSpec& model, const JsonObject& json) {
  if (model.position != PositionKind::kRope || model.latent) {
    return;
  }
  const auto rotated =
      static_cast<std::int64_t>(static_cast<double>(model.head_dim) * model.rope_fraction);
  if ((rotated < 2 || rotated % 2 != 0) && !json.any_faults()) {
    json.refuse(json.has("head_dim") ? "head_dim" : "num_attention_heads",
                "heads of which an even number of elements is rotated, not " +
                    std::to_string(rotated) + " of " + std::to_string(model.head_dim));
  }
}

/// Whether a * b stays within `most`. Requires all positive.
bool product_within(std::int64_t a, std::int64_t b, std::int64_t most) {
  return a <= most / b;
}

}  // namespace

std::int64_t HfFields::required(std::initializer_list<std::string_view> names,
                                IntegerRange range) const {
  const auto used = used_name(json_, names, range);
  return json_.integer(used.value_or(*names.begin()), range);
}

std::int64_t HfFields::integer_or(std::initializer_list<std::string_view> names,
                                  std::int64_t fallback, IntegerRange range) const {
  const auto used = used_name(json_, names, range);
  return used ? json_.integer_or(*used, fallback, range) : fallback;
}

void HfFields::read_sizes(ModelSpec& model, const DecoderDefaults& defaults) const {
  const auto read = [this](std::string_view key, std::optional<std::int64_t> fallback,
                           IntegerRange range) {
    return fallback ? json_.integer_or(key, *fallback, range) : json_.integer(key, range);
  };
  model.hidden = required({"hidden_size"}, kDimension);
  model.heads = read("num_attention_heads", defaults.heads, kDimension);
  model.layers.resize(static_cast<std::size_t>(required({"num_hidden_layers"}, kLayerCount)));
  model.vocabulary = read("vocab_size", defaults.vocabulary, kVocabulary);
  model.embedding_dim = model.hidden;
}

void HfFields::read_decoder(ModelSpec& model, const DecoderDefaults& defaults) const {
  read_sizes(model, defaults);
  read_kv_heads(model, defaults.kv_heads);
  read_head_dim(model, defaults.head_dim);
  model.ffn = integer_or({"intermediate_size"}, defaults.ffn, kDimension);
  model.max_positions = integer_or({"max_position_embeddings"}, defaults.max_positions, kDimension);
  read_activation(model, defaults.activation_key, defaults.activation);
  model.dropout.attention = probability("attention_dropout", 0);
  read_tying(model, defaults.tied);
}

void HfFields::read_kv_heads(ModelSpec& model, std::optional<std::int64_t> fallback) const {
  constexpr std::string_view kKey = "num_key_value_heads";
  const std::int64_t absent = json_.is_null(kKey) ? model.heads : fallback.value_or(model.heads);
  model.kv_heads = json_.integer_or(kKey, absent, kDimension);
  if (model.heads % model.kv_heads != 0) {
    const std::string heads = std::to_string(model.heads);
    json_.refuse(kKey,
                 "a divisor of num_attention_heads (" + heads + ")" +
                     (json_.has(kKey) ? "" : "; absent, it is " + std::to_string(model.kv_heads)),
                 divisors_of(model.heads));
    model.kv_heads = model.heads;
  }
}

void HfFields::read_head_dim(ModelSpec& model, std::optional<std::int64_t> fallback) const {
  if (const auto given = json_.optional_integer("head_dim", kDimension)) {
    model.head_dim = *given;
  } else if (fallback) {
    model.head_dim = *fallback;
  } else {
    derive_head_dim(model);
  }
}

void HfFields::derive_head_dim(ModelSpec& model, std::string_view heads_key) const {
  if (model.hidden % model.heads != 0) {
    if (!json_.any_faults()) {  // What follows from a refused value is no fault of its own.
      json_.refuse(heads_key, "a divisor of the hidden size (" + std::to_string(model.hidden) + ")",
                   divisors_of(model.hidden));
    }
    model.head_dim = 2;
    return;
  }
  model.head_dim = model.hidden / model.heads;
}

void HfFields::require_whole_heads(const ModelSpec& model) const {
  // Without head_dim it is reported already, and a refused value is no reason for a second fault.
  if (model.hidden % model.heads != 0 && json_.has("head_dim") && !json_.any_faults()) {
    json_.refuse("num_attention_heads",
                 "a divisor of the hidden size (" + std::to_string(model.hidden) + ")",
                 divisors_of(model.hidden));
  }
}

void HfFields::read_activation(ModelSpec& model, std::string_view key,
                               std::string_view fallback) const {
  const std::string name = json_.text_or(key, fallback);
  for (const NamedActivation& known : kActivations) {
    if (known.name == name) {
      model.activation = known.activation;
      return;
    }
  }
  json_.refuse(key, "silu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast or relu");
}

double HfFields::probability(std::string_view key, double fallback) const {
  return json_.number_or(key, fallback, kProbability);
}

void HfFields::read_tying(ModelSpec& model, bool fallback) const {
  model.tied_embeddings = json_.boolean_or("tie_word_embeddings", fallback);
}

void HfFields::read_dtype(ModelSpec& model, const JsonObject& outer) const {
  // The newer key wins, as in PreTrainedConfig.__post_init__; a text_config may leave it to the
  // enclosing object. If both are absent, the type is fp32, torch's default.
  model.checkpoint_dtype = DType::kFp32;
  for (const JsonObject* json : {&json_, &outer}) {
    for (const std::string_view key : {"dtype", "torch_dtype"}) {
      const std::optional<std::string> name = json->optional_text(key);
      if (!name) {
        continue;
      }
      const auto* const known = std::find_if(
          kDTypes.begin(), kDTypes.end(), [&name](const NamedDType& d) { return d.name == *name; });
      if (known == kDTypes.end()) {
        json->refuse(key, "float32, bfloat16, float16, float64 or float8_e4m3fn");
        return;
      }
      model.checkpoint_dtype = known->dtype;
      return;
    }
  }
}

void HfFields::read_rope_fraction(ModelSpec& model, std::string_view key, double fallback) const {
  constexpr NumberRange kShare{0.0, 1.0};
  for (const std::string_view outer : {"rope_scaling", "rope_parameters"}) {
    if (const auto rope = json_.optional_object(outer)) {
      for (const std::string& inner : rope->keys()) {
        rope->accept(inner);
      }
      if (const auto share = rope->optional_number("partial_rotary_factor", kShare)) {
        json_.accept(key);
        model.rope_fraction = *share;
        return;
      }
    }
  }
  model.rope_fraction = json_.number_or(key, fallback, kShare);
}

void HfFields::read_numbers(ModelSpec& model) const {
  // Names of `BertConfig`, `GPT2Config`, `Starcoder2Config` and their like.
  for (const std::string_view key : {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                     "layernorm_epsilon", "norm_epsilon"}) {
    if (const auto epsilon = json_.optional_number(key, kAnyFactor)) {
      model.norm_epsilon = epsilon;
    }
  }
  if (model.position != PositionKind::kRope) {
    return;
  }
  for (const std::string_view key : {"rope_theta", "rotary_emb_base"}) {
    if (const auto base = json_.optional_number(key, kAnyFactor)) {
      model.rotary.base = base;
    }
  }
  for (const std::string_view outer : {"rope_scaling", "rope_parameters"}) {
    if (const auto rope = json_.optional_object(outer)) {
      read_rotary_object(*rope, model.rotary);
    }
  }
}

void HfFields::read_uniform_window(ModelSpec& model, std::optional<std::int64_t> fallback) const {
  const std::optional<std::int64_t> absent =
      json_.is_null("sliding_window") ? std::nullopt : fallback;
  const auto given = json_.optional_integer("sliding_window", kDimension);
  for (LayerSpec& layer : model.layers) {
    layer.window = given ? given : absent;
  }
}

void HfFields::read_layer_windows(ModelSpec& model, std::optional<std::int64_t> window,
                                  const std::function<bool(std::int64_t)>& is_sliding) const {
  std::vector<std::string> types = json_.texts_or_none("layer_types");
  if (!types.empty() && types.size() != model.layers.size()) {
    json_.refuse("layer_types", "one entry for each of num_hidden_layers (" +
                                    std::to_string(model.layers.size()) + ")");
    return;
  }
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const bool sliding =
        types.empty() ? is_sliding(static_cast<std::int64_t>(i)) : types[i] == "sliding_attention";
    if (!types.empty() && !sliding && types[i] != "full_attention") {
      json_.refuse("layer_types", "only full_attention and sliding_attention, not " + types[i]);
      return;
    }
    if (sliding && !window) {
      json_.refuse("sliding_window", "a window, because layers are of type sliding_attention",
                   "set sliding_window, or make every layer_types entry full_attention");
      return;
    }
    model.layers[i].window = sliding ? window : std::nullopt;
  }
}

void HfFields::support_only(std::string_view key, bool supported, std::string_view reason) const {
  if (json_.boolean_or(key, supported) != supported) {
    json_.refuse(key, supported ? "true" : "false", reason);
  }
}

void check_size(const ModelSpec& model, const JsonObject& json) {
  if (json.any_faults()) {
    return;  // Refused sizes have placeholder values, which would cause further messages.
  }
  check_rotation(model, json);
  constexpr std::int64_t kMostHeadsWidth = std::int64_t{1} << 24;
  constexpr std::int64_t kMostParameters = std::int64_t{1} << 50;
  constexpr std::string_view kTooLarge = "at most 2^50 parameters";
  const auto refuse = [&json](Factor a, Factor b, std::string_view wanted) {
    json.refuse_product(std::string(a.name) + " " + std::to_string(a.value) + " times " +
                            std::string(b.name) + " " + std::to_string(b.value),
                        wanted);
  };
  const Factor heads{"num_attention_heads", model.heads};
  const Factor head{"head size", model.latent ? model.latent->v_dim + model.latent->nope_dim +
                                                    model.latent->rope_dim
                                              : model.head_dim};
  if (!product_within(heads.value, head.value, kMostHeadsWidth)) {
    return refuse(heads, head, "at most 2^24");
  }
  const MoeSpec dense{.experts = 1};
  const MoeSpec& moe = model.moe ? *model.moe : dense;
  if (moe.shared_ffn > kDimension.greatest) {
    return refuse({"moe_intermediate_size", moe.expert_ffn},
                  {"n_shared_experts", moe.shared_ffn / moe.expert_ffn}, "at most 2^24");
  }
  // From here on, each factor is at most 2^24, except experts (2^14) and vocabulary (2^27).
  const Factor hidden{"hidden size", model.hidden};
  const Factor width{"width of the experts",
                     moe.experts * std::max({model.ffn, moe.expert_ffn, moe.shared_ffn})};
  if (!product_within(width.value, 4 * hidden.value, kMostParameters)) {
    return refuse(hidden, width, kTooLarge);
  }
  const Factor vocabulary{"vocab_size", model.vocabulary};
  if (!product_within(vocabulary.value, hidden.value, kMostParameters)) {
    return refuse(vocabulary, hidden, kTooLarge);
  }
  const Factor layers{"layers", static_cast<std::int64_t>(model.layers.size()) +
                                    (model.encoder ? model.encoder->layers : 0)};
  const Factor layer{"parameters per layer", largest_layer(model)};
  if (!product_within(layers.value, layer.value, kMostParameters)) {
    refuse(layers, layer, kTooLarge);
  }
}

}  // namespace headroom::ir
