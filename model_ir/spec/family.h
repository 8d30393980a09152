#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// Every family that is written by hand, in the order of the enumeration.
inline constexpr std::array kFamilies = {
    Family::kLlama,  Family::kMistral,    Family::kMixtral,    Family::kQwen2,  Family::kQwen2Moe,
    Family::kQwen3,  Family::kQwen3Moe,   Family::kGemma,      Family::kGemma2, Family::kGemma3Text,
    Family::kPhi3,   Family::kGpt2,       Family::kGptNeox,    Family::kOpt,    Family::kBloom,
    Family::kFalcon, Family::kDeepseekV2, Family::kDeepseekV3, Family::kGptOss, Family::kGranite,
    Family::kOlmo2,  Family::kCohere,     Family::kStarcoder2, Family::kGlm4,   Family::kStablelm,
    Family::kBert,   Family::kT5,
};

/// The `model_type` of Gemma 3 with a tower for images; its text part is a gemma3_text.
inline constexpr std::string_view kMultimodalGemma3 = "gemma3";

/// A second `model_type` of GPT-2 (transformers, models/auto/configuration_auto.py,
/// CONFIG_MAPPING_NAMES: "gpt-sw3" has the class GPT2Config).
inline constexpr std::string_view kGptSw3 = "gpt-sw3";

/// The `model_type` of a config.json ("gemma3_text").
[[nodiscard]] std::string_view name_of(Family family);

/// The family of a `model_type`; nothing for one that is not known.
[[nodiscard]] std::optional<Family> parse_family(std::string_view model_type);

/// The family whose causal language model has this class ("DeepseekV3ForCausalLM"); nothing for
/// others. Kimi K2 has a `model_type` of its own, and the class of DeepSeek-V3.
[[nodiscard]] std::optional<Family> parse_family_class(std::string_view name);

/// Names of all families, in the order of `kFamilies`.
[[nodiscard]] std::vector<std::string> family_names();

}  // namespace headroom::ir
