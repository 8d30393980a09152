#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/json/json_reader.h"
#include "model_ir/spec/family.h"

namespace headroom::ir {

/// The hints in a configuration's keys about a model whose `model_type` is not known.
struct UnknownType {
  std::string type;                 ///< `model_type`, as written.
  std::optional<Family> alike;      ///< The known family that has such keys.
  std::vector<std::string> unlike;  ///< Kinds of layers, and keys, that no known family has.
  bool experts = false;             ///< Whether any key is about experts.
  friend bool operator==(const UnknownType&, const UnknownType&) = default;
};

/// Compares the keys of `config`, or of its `text_config`, with those of the known families.
///
/// Model:   the first family, most particular first, whose own keys are all there: latent attention
///          and groups of experts (DeepSeek), shared experts (Qwen2-MoE), experts (Qwen3-MoE,
///          Mixtral), KV heads and a gated MLP (Llama). Kinds in `layer_types` other than full and
///          sliding attention, and keys of state-space, linear and sparse attention, are unlike
///          all.
[[nodiscard]] UnknownType describe_unknown_type(const JsonObject& config);

/// Advice for the fix of a message: a family whose spelling is near, a family that is
/// alike, or why none is.
[[nodiscard]] std::string advice_on(const UnknownType& unknown);

}  // namespace headroom::ir
