#include "runtimes/transformers/refused_targets.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir::transformers {
namespace {

/// Types whose fused kernels read the weight of `out_proj` without calling the module.
constexpr std::array<std::string_view, 5> kMambaTypes = {"falcon_h1", "mamba", "mamba2",
                                                         "falcon_mamba", "nemotron_h"};
constexpr std::string_view kMambaOutput = "out_proj";

/// A linear layer that returns two tensors, while PEFT's adapter expects one.
constexpr std::string_view kTupleClass = "Llama4Router";
constexpr std::string_view kTupleModule = "router";

/// The names in `targets` without `refused`, as `--lora targets=` takes them.
std::string others(const std::set<std::string>& targets, std::string_view refused) {
  std::string text;
  for (const std::string& name : targets) {
    if (name != refused) {
      text += (text.empty() ? "" : "+") + name;
    }
  }
  return text.empty() ? "in_proj" : text;
}

}  // namespace

std::optional<Error> refused_targets(const ModelSpec& spec, const LoraPlan& lora,
                                     const std::set<std::string>& targets) {
  if (!spec.recording) {
    return std::nullopt;
  }
  const Recording& recording = *spec.recording;
  const auto adapts = [&targets](std::string_view name) {
    return targets.contains(std::string(name));
  };
  const auto refusal = [&targets](std::string_view name, std::string_view why) {
    return Error::invalid_argument(
        "lora", "adapters on " + std::string(name), std::string(why),
        "name other layers, in --lora or --qlora: targets=" + others(targets, name));
  };
  if (std::ranges::find(kMambaTypes, recording.model) != kMambaTypes.end() &&
      adapts(kMambaOutput)) {
    return refusal(kMambaOutput, "other layers: PEFT refuses out_proj in models of type " +
                                     recording.model + " (ValueError)");
  }
  const bool has_router = std::ranges::any_of(
      recording.modules, [](const RecordedModule& one) { return one.type == kTupleClass; });
  const bool adapts_router =
      lora.targets.empty() || std::ranges::find(lora.targets, kTupleModule) != lora.targets.end();
  if (has_router && adapts_router) {
    return refusal(kTupleModule,
                   "other layers: the router returns two tensors, and PEFT's adapter fails "
                   "(AttributeError)");
  }
  return std::nullopt;
}

}  // namespace headroom::ir::transformers
