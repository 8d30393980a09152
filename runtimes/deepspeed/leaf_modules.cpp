#include "runtimes/deepspeed/leaf_modules.h"

#include <algorithm>
#include <array>

namespace headroom::ir::deepspeed {

std::string_view experts_class(Family family) {
  switch (family) {
    case Family::kMixtral:
      return "MixtralSparseMoeBlock";
    case Family::kQwen2Moe:
      return "Qwen2MoeSparseMoeBlock";
    case Family::kQwen3Moe:
      return "Qwen3MoeSparseMoeBlock";
    case Family::kDeepseekV2:
      return "DeepseekV2Moe";
    case Family::kDeepseekV3:
      return "DeepseekV3MoE";
    case Family::kGptOss:
      return "GptOssMLP";
    default:
      return "";
  }
}

namespace {

constexpr std::array kFamilies = {Family::kMixtral,    Family::kQwen2Moe,   Family::kQwen3Moe,
                                  Family::kDeepseekV2, Family::kDeepseekV3, Family::kGptOss};

}  // namespace

bool is_experts_class(std::string_view type) {
  return std::ranges::any_of(kFamilies,
                             [&](Family family) { return experts_class(family) == type; });
}

bool is_default_leaf_class(std::string_view type) {
  return std::ranges::any_of(kFamilies, [&](Family family) {
    return is_default_leaf(family) && experts_class(family) == type;
  });
}

bool is_default_leaf(Family family) {
  return family == Family::kMixtral || family == Family::kQwen2Moe || family == Family::kQwen3Moe;
}

}  // namespace headroom::ir::deepspeed
