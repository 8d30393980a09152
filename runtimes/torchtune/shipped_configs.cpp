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
  std::string_view recipes;
  bool scaled = false;          ///< With the rotary scaling of Llama 3.1.
  std::int64_t vocabulary = 0;  ///< Where the other sizes are those of another model; 0: any.
};

constexpr std::array<ShippedModel, 25> kModels = {
    {{"llama3_1/8B", Family::kLlama, 4096, 32, forms::kLlama, true},
     {"llama3_1/70B", Family::kLlama, 8192, 80, "full lora", true},
     {"llama3_1/405B", Family::kLlama, 16384, 126, "qlora", true},
     {"llama3_2/1B", Family::kLlama, 2048, 16, forms::kLlama, true},
     {"llama3_2/3B", Family::kLlama, 3072, 28, forms::kLlama, true},
     {"llama3/8B", Family::kLlama, 4096, 32, forms::kLlama, false, 128256},
     {"llama3/70B", Family::kLlama, 8192, 80, "full lora", false, 128256},
     {"llama2/7B", Family::kLlama, 4096, 32, forms::kLean, false, 32000},
     {"llama2/13B", Family::kLlama, 5120, 40, "full lora qlora_single_device", false, 32000},
     {"llama2/70B", Family::kLlama, 8192, 80, "lora qlora", false, 32000},
     {"mistral/7B", Family::kMistral, 4096, 32, forms::kLean, false, 32000},
     {"gemma/2B", Family::kGemma, 2048, 18, forms::kGemma},
     {"gemma/7B", Family::kGemma, 3072, 28, forms::kGemma},
     {"gemma2/2B", Family::kGemma2, 2304, 26, forms::kGemma},
     {"gemma2/9B", Family::kGemma2, 3584, 42, forms::kGemma},
     {"gemma2/27B", Family::kGemma2, 4608, 46, forms::kGemma},
     {"phi3/mini", Family::kPhi3, 3072, 32, forms::kLean, false, 32064},
     {"phi4/14B", Family::kPhi3, 5120, 40, forms::kLean, false, 100352},
     {"qwen2_5/0.5B", Family::kQwen2, 896, 24, forms::kQwen},
     {"qwen2_5/1.5B", Family::kQwen2, 1536, 28, forms::kQwen},
     {"qwen2_5/3B", Family::kQwen2, 2048, 36, forms::kQwen},
     {"qwen2_5/7B", Family::kQwen2, 3584, 28, forms::kQwen},
     {"qwen2_5/14B", Family::kQwen2, 5120, 48, "lora_single_device"},
     {"qwen2_5/32B", Family::kQwen2, 5120, 64, "lora"},
     {"qwen2_5/72B", Family::kQwen2, 8192, 80, "lora"}}};

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

bool is_model(const ShippedModel& shipped, const ModelSpec& model) {
  const bool scaled = model.rotary.scaling == RotaryScaling::kLlama3;
  return shipped.family == model.family && shipped.hidden == model.hidden &&
         shipped.layers == static_cast<std::int64_t>(model.layers.size()) &&
         shipped.scaled == scaled &&
         (shipped.vocabulary == 0 || shipped.vocabulary == model.vocabulary);
}

}  // namespace

std::string shipped_config(const ModelSpec& model, const ParallelPlan& plan) {
  for (const ShippedModel& shipped : kModels) {
    if (!is_model(shipped, model)) {
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

}  // namespace headroom::ir::torchtune
