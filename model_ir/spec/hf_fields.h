#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "model_ir/json/json_reader.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// Bounds on the dimensions of a configuration. `check_size` also bounds products, so that no
/// accepted model can overflow a 64-bit count of parameters or bytes.
inline constexpr IntegerRange kDimension{1, std::int64_t{1} << 24};
inline constexpr IntegerRange kVocabulary{1, std::int64_t{1} << 27};
inline constexpr IntegerRange kLayerCount{1, std::int64_t{1} << 12};
inline constexpr IntegerRange kExpertCount{1, std::int64_t{1} << 14};
inline constexpr NumberRange kProbability{0.0, 1.0};
inline constexpr NumberRange kPositive{1e-30, 1e30};

/// What a decoder class of transformers assumes for absent keys. hidden_size, num_hidden_layers,
/// num_attention_heads and vocab_size have no default: a guess would change the size of the model
/// unnoticed.
struct DecoderDefaults {
  std::int64_t ffn = 0;
  std::optional<std::int64_t> kv_heads = std::nullopt;  ///< None: same as heads.
  std::optional<std::int64_t> head_dim = std::nullopt;  ///< None: hidden / heads.
  std::int64_t max_positions = 0;
  bool tied = false;
  std::string_view activation = "silu";
  std::string_view activation_key = "hidden_act";
  std::optional<std::int64_t> heads =
      std::nullopt;  ///< Only for the text part of a multimodal file.
  std::optional<std::int64_t> vocabulary = std::nullopt;  ///< Likewise.
};

/// A Hugging Face configuration being turned into a `ModelSpec`. Adds to `JsonObject` what only
/// such files need, such as keys with two names.
class HfFields {
 public:
  explicit HfFields(JsonObject json) : json_(std::move(json)) {}

  [[nodiscard]] const JsonObject& json() const { return json_; }

  /// A field with several names, the class's own first (its `attribute_map` gives the others).
  /// Naming it twice with different values is an error.
  [[nodiscard]] std::int64_t required(std::initializer_list<std::string_view> names,
                                      IntegerRange range) const;
  [[nodiscard]] std::int64_t integer_or(std::initializer_list<std::string_view> names,
                                        std::int64_t fallback, IntegerRange range) const;

  /// hidden, heads, layers, vocabulary under their usual names.
  void read_sizes(ModelSpec& model, const DecoderDefaults& defaults = {}) const;
  /// As `read_sizes`, then KV heads, head size, feed-forward width, positions, activation, tying
  /// and attention dropout, as most decoders name them.
  void read_decoder(ModelSpec& model, const DecoderDefaults& defaults) const;

  void read_kv_heads(ModelSpec& model, std::optional<std::int64_t> fallback) const;
  void read_head_dim(ModelSpec& model, std::optional<std::int64_t> fallback) const;
  /// head size = hidden / heads, which must divide.
  void derive_head_dim(ModelSpec& model, std::string_view heads_key = "num_attention_heads") const;
  /// Refuses a hidden size that is not a multiple of the heads, even if the head size is given.
  void require_whole_heads(const ModelSpec& model) const;

  void read_activation(ModelSpec& model, std::string_view key, std::string_view fallback) const;
  [[nodiscard]] double probability(std::string_view key, double fallback) const;
  void read_tying(ModelSpec& model, bool fallback) const;
  void read_dtype(ModelSpec& model, const JsonObject& outer) const;

  /// Rotated share of the head, from `rope_parameters`, `rope_scaling` or the top level.
  void read_rope_fraction(ModelSpec& model, std::string_view key, double fallback) const;

  /// Epsilon of the norms, and base and scaling of the rotary embedding. No byte depends on them.
  void read_numbers(ModelSpec& model) const;

  /// One window for all layers, if there is one.
  void read_uniform_window(ModelSpec& model, std::optional<std::int64_t> fallback) const;
  /// `layer_types` if given, else `is_sliding(layer)`; windowed layers get `window`.
  void read_layer_windows(ModelSpec& model, std::optional<std::int64_t> window,
                          const std::function<bool(std::int64_t)>& is_sliding) const;

  /// Refuses `key` unless it is absent, null or `supported`.
  void support_only(std::string_view key, bool supported, std::string_view reason) const;

 private:
  JsonObject json_;
};

/// Notes in `json` every impossible dimension of `model` (such as an odd head that is rotated) and
/// every product that is too large to count (2^50 parameters).
void check_size(const ModelSpec& model, const JsonObject& json);

}  // namespace headroom::ir
