#include "runtimes/deepspeed/leaf_modules.h"

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

bool is_default_leaf(Family family) {
  return family == Family::kMixtral || family == Family::kQwen2Moe || family == Family::kQwen3Moe;
}

}  // namespace headroom::ir::deepspeed
