#include "model_ir/runtime/transformers/library_version.h"

#include <charconv>
#include <string>

namespace headroom::ir::transformers {
namespace {

constexpr int kOldest = 444;  ///< 4.44
constexpr int kNewest = 517;  ///< 5.17
constexpr int kMajorOf5 = 500;

/// 444 of "4.44" and "4.44.2".
std::optional<int> number_of(std::string_view version) {
  int major = 0;
  int minor = 0;
  const char* const end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') {
    return std::nullopt;
  }
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  const bool ends = second.ptr == end || *second.ptr == '.';
  if (second.ec != std::errc{} || !ends || major < 0 || major > 9 || minor < 0 || minor > 99) {
    return std::nullopt;
  }
  return 100 * major + minor;
}

constexpr int kSharedMasks = 453;  ///< masking_utils.py makes every family's masks.

/// The first version whose code of this family is Llama's, module by module: Qwen2 kept its own
/// rotary tables, Mistral its own loss for longer; both made eager masks of their own until
/// masking_utils.py. Source: models/qwen2/modeling_qwen2.py and models/mistral/modeling_mistral.py
/// of the releases.
std::optional<int> first_like_llama(const ModelSpec& spec, AttentionKind attention) {
  for (const LayerSpec& layer : spec.layers) {
    if (layer.window) {
      return std::nullopt;
    }
  }
  const bool eager = attention == AttentionKind::kEager;
  switch (spec.family) {
    case Family::kLlama:
      return kOldest;
    case Family::kQwen2:
      return eager ? kSharedMasks : 446;
    case Family::kMistral:
      return eager ? kSharedMasks : 449;
    default:
      return std::nullopt;
  }
}

}  // namespace

LibraryTraits library_traits(const ParallelPlan& plan) {
  LibraryTraits traits;
  const std::optional<int> version = number_of(plan.runtime_version);
  if (plan.runtime != RuntimeKind::kTransformers || !version) {
    return traits;
  }
  traits.widens_logits = *version <= 445;
  traits.shifts_logits = *version <= 448;
  traits.attention_classes = *version <= 447;
  traits.repeats_heads = *version <= 453;
  traits.contiguous_heads = *version >= 448 && *version <= 455;
  traits.masks_packed = *version >= 453 && *version < kMajorOf5;
  traits.scales_tables_late = *version <= 450;
  traits.fills_masks = *version <= 452;
  traits.fourth = *version < kMajorOf5;
  return traits;
}

std::optional<Error> version_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  if (plan.runtime_version.empty()) {
    return std::nullopt;
  }
  const std::optional<int> version = number_of(plan.runtime_version);
  if (!version || *version < kOldest || *version > kNewest) {
    return Error::invalid_argument("runtime-version", plan.runtime_version,
                                   "a version of transformers from 4.44 to 5.17",
                                   "leave it out for the newest one modelled");
  }
  if (*version >= kMajorOf5) {
    return std::nullopt;
  }
  const std::optional<int> first = first_like_llama(spec, plan.attention);
  if (!first || *version < *first || plan.liger || plan.generation || plan.padded_batch ||
      plan.attention == AttentionKind::kFlash || plan.loss != LossKind::kHf || plan.quant ||
      spec.task != Task::kLanguage) {
    return Error::invalid_argument(
        "runtime-version", plan.runtime_version + " for this model or plan",
        "before version 5: Llama's modules, Qwen2's from 4.46 and Mistral's from 4.49 on (with "
        "eager attention from 4.53 on), without windows, sdpa or eager attention, transformers' "
        "own "
        "language loss and weights that are not quantised",
        "leave it out for the newest one modelled");
  }
  return std::nullopt;
}

}  // namespace headroom::ir::transformers
