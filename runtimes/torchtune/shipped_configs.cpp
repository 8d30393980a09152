#include "runtimes/torchtune/shipped_configs.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace headroom::ir::torchtune {
namespace {

/// The recipes for which a model has a configuration, as its files end.
namespace forms {
constexpr std::string_view kLean =
    "full full_low_memory lora lora_single_device "
    "qlora_single_device";
constexpr std::string_view kLlama =
    "full full_single_device lora lora_single_device "
    "qlora_single_device";
constexpr std::string_view kQwen = "full full_single_device lora lora_single_device";
constexpr std::string_view kGemma = "full lora lora_single_device qlora_single_device";
}  // namespace forms

/// A model for which torchtune ships configurations.
struct ShippedModel {
  std::string_view name;  ///< Folder and size: "llama3_1/8B".
  Family family;
  std::int64_t hidden;
  std::int64_t layers;
  std::int64_t ffn;
  std::int64_t vocabulary;
  std::string_view recipes;
  bool tied = false;
  bool scaled = false;           ///< With the rotary scaling of Llama 3.1.
  std::string_view called = {};  ///< A part of the name that the user gives the model.
};

constexpr std::array<ShippedModel, 29> kModels = {
    {{"llama3_3/70B", Family::kLlama, 8192, 80, 28672, 128256, "full lora qlora", false, true,
      "3.3"},
     {"llama3_1/8B", Family::kLlama, 4096, 32, 14336, 128256, forms::kLlama, false, true},
     {"llama3_1/70B", Family::kLlama, 8192, 80, 28672, 128256, "full lora", false, true},
     {"llama3_1/405B", Family::kLlama, 16384, 126, 53248, 128256, "qlora", false, true},
     {"llama3_2/1B", Family::kLlama, 2048, 16, 8192, 128256, forms::kLlama, true, true},
     {"llama3_2/3B", Family::kLlama, 3072, 28, 8192, 128256, forms::kLlama, true, true},
     {"llama3/8B", Family::kLlama, 4096, 32, 14336, 128256, forms::kLlama},
     {"llama3/70B", Family::kLlama, 8192, 80, 28672, 128256, "full lora"},
     {"llama2/7B", Family::kLlama, 4096, 32, 11008, 32000,
      "full full_low_memory lora lora_single_device qlora qlora_single_device"},
     {"llama2/13B", Family::kLlama, 5120, 40, 13824, 32000, "full lora qlora_single_device"},
     {"llama2/70B", Family::kLlama, 8192, 80, 28672, 32000, "lora qlora"},
     {"mistral/7B", Family::kMistral, 4096, 32, 14336, 32000, forms::kLean},
     {"gemma/2B", Family::kGemma, 2048, 18, 16384, 256000, forms::kGemma, true},
     {"gemma/7B", Family::kGemma, 3072, 28, 24576, 256000, forms::kGemma, true},
     {"gemma2/2B", Family::kGemma2, 2304, 26, 9216, 256000, forms::kGemma, true},
     {"gemma2/9B", Family::kGemma2, 3584, 42, 14336, 256000, forms::kGemma, true},
     {"gemma2/27B", Family::kGemma2, 4608, 46, 36864, 256000, forms::kGemma, true},
     {"phi3/mini", Family::kPhi3, 3072, 32, 8192, 32064, forms::kLean},
     {"phi4/14B", Family::kPhi3, 5120, 40, 17920, 100352, forms::kLean},
     {"qwen2/0.5B", Family::kQwen2, 896, 24, 4864, 151936, forms::kQwen, true, false, "qwen2-"},
     {"qwen2/1.5B", Family::kQwen2, 1536, 28, 8960, 151936, forms::kQwen, true, false, "qwen2-"},
     {"qwen2/7B", Family::kQwen2, 3584, 28, 18944, 152064, forms::kQwen, false, false, "qwen2-"},
     {"qwen2_5/0.5B", Family::kQwen2, 896, 24, 4864, 151936, forms::kQwen, true},
     {"qwen2_5/1.5B", Family::kQwen2, 1536, 28, 8960, 151936, forms::kQwen, true},
     {"qwen2_5/3B", Family::kQwen2, 2048, 36, 11008, 151936, forms::kQwen, true},
     {"qwen2_5/7B", Family::kQwen2, 3584, 28, 18944, 152064, forms::kQwen},
     {"qwen2_5/14B", Family::kQwen2, 5120, 48, 13824, 152064, "lora_single_device"},
     {"qwen2_5/32B", Family::kQwen2, 5120, 64, 27648, 152064, "lora"},
     {"qwen2_5/72B", Family::kQwen2, 8192, 80, 29568, 152064, "lora"}}};

/// Endings of the configurations that run the plan's recipe; the best one first.
std::vector<std::string_view> wanted(const ParallelPlan& plan) {
  if (plan.quant) {
    return plan.world > 1 ? std::vector<std::string_view>{"qlora"}
                          : std::vector<std::string_view>{"qlora_single_device"};
  }
  if (plan.lora) {
    return plan.world > 1 ? std::vector<std::string_view>{"lora"}
                          : std::vector<std::string_view>{"lora_single_device"};
  }
  return plan.world > 1 ? std::vector<std::string_view>{"full"}
                        : std::vector<std::string_view>{"full_single_device", "full_low_memory"};
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = words.find(' ');
    if (words.substr(0, end) == word) {
      return true;
    }
    words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  }
  return false;
}

bool is_model(const ShippedModel& shipped, const ModelSpec& model, std::string_view name) {
  const bool scaled = model.rotary.scaling == RotaryScaling::kLlama3;
  return shipped.family == model.family && shipped.hidden == model.hidden &&
         shipped.layers == static_cast<std::int64_t>(model.layers.size()) &&
         shipped.ffn == model.ffn && shipped.vocabulary == model.vocabulary &&
         shipped.tied == model.tied_embeddings && shipped.scaled == scaled &&
         name.find(shipped.called) != std::string_view::npos;
}

}  // namespace

std::string shipped_config(const ModelSpec& model, const ParallelPlan& plan,
                           std::string_view name) {
  for (const ShippedModel& shipped : kModels) {
    if (!is_model(shipped, model, name)) {
      continue;
    }
    for (const std::string_view form : wanted(plan)) {
      if (has_word(shipped.recipes, form)) {
        return std::string(shipped.name) + "_" + std::string(form);
      }
    }
  }
  return {};
}

bool names_fused(std::string_view config) {
  const bool small = config.find("/0.5B") != std::string_view::npos;
  return !config.ends_with("70B_full") && !config.ends_with("full_low_memory") &&
         (small || !config.ends_with("full_single_device"));
}

}  // namespace headroom::ir::torchtune
