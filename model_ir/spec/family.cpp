#include "model_ir/spec/family.h"

namespace headroom::ir {

std::string_view name_of(Family family) {
  switch (family) {
    case Family::kLlama:
      return "llama";
    case Family::kMistral:
      return "mistral";
    case Family::kMixtral:
      return "mixtral";
    case Family::kQwen2:
      return "qwen2";
    case Family::kQwen2Moe:
      return "qwen2_moe";
    case Family::kQwen3:
      return "qwen3";
    case Family::kQwen3Moe:
      return "qwen3_moe";
    case Family::kGemma:
      return "gemma";
    case Family::kGemma2:
      return "gemma2";
    case Family::kGemma3Text:
      return "gemma3_text";
    case Family::kPhi3:
      return "phi3";
    case Family::kGpt2:
      return "gpt2";
    case Family::kGptNeox:
      return "gpt_neox";
    case Family::kOpt:
      return "opt";
    case Family::kBloom:
      return "bloom";
    case Family::kFalcon:
      return "falcon";
    case Family::kDeepseekV2:
      return "deepseek_v2";
    case Family::kDeepseekV3:
      return "deepseek_v3";
    case Family::kGptOss:
      return "gpt_oss";
    case Family::kGranite:
      return "granite";
    case Family::kOlmo2:
      return "olmo2";
    case Family::kCohere:
      return "cohere";
    case Family::kStarcoder2:
      return "starcoder2";
    case Family::kGlm4:
      return "glm4";
    case Family::kStablelm:
      return "stablelm";
    case Family::kBert:
      return "bert";
    case Family::kT5:
      return "t5";
    case Family::kRecorded:
      return "recording";
  }
  return "?";
}

std::optional<Family> parse_family(std::string_view model_type) {
  if (model_type == kGptSw3) {
    return Family::kGpt2;
  }
  for (const Family family : kFamilies) {
    if (name_of(family) == model_type) {
      return family;
    }
  }
  return std::nullopt;
}

std::optional<Family> parse_family_class(std::string_view name) {
  constexpr std::string_view kEnding = "ForCausalLM";
  if (!name.ends_with(kEnding)) {
    return std::nullopt;
  }
  std::string small;  // Classes are named after types, with capital letters for underscores.
  for (const char letter : name.substr(0, name.size() - kEnding.size())) {
    small += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  for (const Family family : kFamilies) {
    std::string type(name_of(family));
    std::erase(type, '_');
    if (type == small) {
      return family;
    }
  }
  return std::nullopt;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  names.reserve(kFamilies.size());
  for (const Family family : kFamilies) {
    names.emplace_back(name_of(family));
  }
  return names;
}

}  // namespace headroom::ir
