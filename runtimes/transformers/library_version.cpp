#include "runtimes/transformers/library_version.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "model_ir/spec/family.h"

namespace headroom::ir::transformers {
namespace {

constexpr int kOldest = 444;   ///< 4.44
constexpr int kLastOf4 = 457;  ///< 4.57, after which came 5.0.
constexpr int kMajorOf5 = 500;
constexpr int kNewest = 517;  ///< 5.17

/// Digits alone, at least one.
bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// 444 for "4.44" and "4.44.2".
std::optional<int> number_of(std::string_view version) {
  int major = 0;
  int minor = 0;
  const char* const end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') {
    return std::nullopt;
  }
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  const std::string_view rest(second.ptr, end);
  const bool ends = rest.empty() || (rest[0] == '.' && is_number(rest.substr(1)));
  if (second.ec != std::errc{} || !ends || major < 0 || major > 9 || minor < 0 || minor > 99) {
    return std::nullopt;
  }
  return 100 * major + minor;
}

/// The releases in which a family's code adopted what the library shares, as 100 * major + minor.
/// Source: models/*/modeling_*.py of the releases.
struct FamilyReleases {
  int first = kMajorOf5;                ///< The first release whose code is modelled.
  int attention_functions = kMajorOf5;  ///< ALL_ATTENTION_FUNCTIONS replaces its own classes.
  int own_masks = 444;                  ///< A mask in addition to the attention's own buffer.
  int shared_masks = kMajorOf5;         ///< masking_utils.py replaces its own masks.
  int fused_attention = 444;            ///< sdpa.
  bool narrow_loss = false;             ///< Its own loss on narrow logits until 4.47.
  bool ranges_masks = false;            ///< Filled masks do not begin as triangles,
  int triangles_masks = 0;              ///< except in this release.
  int model_tables = 448;               ///< Layers have no rotary tables of their own from here on.
  int builds_once = 0;                  ///< Layers no longer make modules that they then replace.
  int expert_numbers = kMajorOf5;       ///< ExpertLoop::kNumbers; before, kAll.
  int expert_tensors = kMajorOf5;       ///< ExpertLoop::kTensors
};

constexpr int kSharedMasks = 453;  ///< Most families adopted masking_utils.py here.

/// Families whose code came from Llama's or followed it.
FamilyReleases like_llama(int first) {
  return {.first = first, .attention_functions = 448, .shared_masks = kSharedMasks};
}

/// The same with masks that support a window.
FamilyReleases like_mistral(int first) {
  FamilyReleases releases = like_llama(first);
  releases.ranges_masks = true;
  return releases;
}

FamilyReleases mixture_releases(Family family) {
  switch (family) {
    case Family::kMixtral: {
      FamilyReleases releases = like_mistral(448);
      releases.expert_numbers = 452;
      releases.expert_tensors = 453;
      return releases;
    }
    case Family::kQwen2Moe:
      return {.first = 446,
              .ranges_masks = true,
              .model_tables = kMajorOf5,
              .expert_numbers = 452,
              .expert_tensors = 453};
    case Family::kQwen3Moe: {
      FamilyReleases releases = like_mistral(451);
      releases.builds_once = 452;
      releases.expert_tensors = 453;
      return releases;
    }
    case Family::kDeepseekV3:
      return like_llama(451);
    case Family::kGptOss: {
      FamilyReleases releases = like_llama(456);
      releases.expert_tensors = 456;
      return releases;
    }
    default:
      return {};
  }
}

FamilyReleases releases_of(Family family) {
  switch (family) {
    case Family::kLlama:
      return like_llama(444);
    case Family::kQwen2: {
      FamilyReleases releases = like_mistral(446);
      releases.triangles_masks = 448;
      return releases;
    }
    case Family::kMistral:
      return like_mistral(448);
    case Family::kGemma:
    case Family::kCohere:
    case Family::kGranite:
      return like_llama(448);
    case Family::kPhi3:
      return like_mistral(449);
    case Family::kGlm4:
      return like_llama(451);
    case Family::kQwen3:
      return like_mistral(451);
    case Family::kOlmo2:
      return like_llama(452);
    case Family::kStarcoder2:
      return like_mistral(452);
    case Family::kGemma2:
    case Family::kGemma3Text:
      return like_llama(kSharedMasks);  // Earlier it had its own masks.
    case Family::kGpt2:
      return {.first = 444,
              .attention_functions = 448,
              .own_masks = 452,
              .shared_masks = 454,
              .narrow_loss = true};
    case Family::kGptNeox:
      return {.first = 449,
              .attention_functions = 449,
              .shared_masks = kSharedMasks,
              .narrow_loss = true,
              .model_tables = 449};
    case Family::kOpt:
      return {.first = 452, .attention_functions = 450, .narrow_loss = true};
    case Family::kStablelm:
      return {.first = 446, .narrow_loss = true, .model_tables = kMajorOf5};
    case Family::kFalcon:
      return {.first = 446, .narrow_loss = true, .model_tables = 454};
    case Family::kBloom:
      return {.first = 444, .narrow_loss = true};
    case Family::kBert:
      return {.first = 444};
    case Family::kT5:
      return {.first = 446, .fused_attention = kMajorOf5};
    default:
      return mixture_releases(family);
  }
}

std::string text_of(int version) {
  return std::to_string(version / 100) + "." + std::to_string(version % 100);
}

/// The error for experts that no token chooses: a loop skips them, and their weights get no
/// gradient.
std::optional<Error> unchosen_experts(const ModelSpec& spec, const ParallelPlan& plan) {
  const std::int64_t tokens = plan.workload.micro_batch * plan.workload.sequence;
  if (!spec.moe || tokens * spec.moe->top_k >= spec.moe->experts) {
    return std::nullopt;
  }
  return Error::invalid_argument("runtime-version",
                                 plan.runtime_version + " with " + std::to_string(tokens) +
                                     " tokens for " + std::to_string(spec.moe->experts) +
                                     " experts",
                                 "at least as many routed tokens as experts",
                                 "increase --seq or --micro-batch, or use --runtime-version 5.0");
}

/// The error for what the family's code of that release does and the model does not.
std::optional<Error> family_trouble(const ModelSpec& spec, const ParallelPlan& plan, int version) {
  const FamilyReleases releases = releases_of(spec.family);
  int first = releases.first;
  std::string what(name_of(spec.family));
  const bool windows = std::any_of(spec.layers.begin(), spec.layers.end(),
                                   [](const LayerSpec& layer) { return layer.window.has_value(); });
  if (windows && releases.shared_masks > first) {
    first = releases.shared_masks;
    what = "layers with windows";
  }
  if (spec.architecture == Architecture::kEncoderDecoder) {
    if (spec.head_input_scale == 1) {  // Its head was not tied.
      first = kMajorOf5;
      what = "a T5 whose tie_word_embeddings is false";
    } else if (plan.recompute == Recompute::kFullReentrant) {
      first = kMajorOf5;
      what = "reentrant checkpointing of a T5";
    }
  }
  if (version >= first) {
    return unchosen_experts(spec, plan);
  }
  return Error::invalid_argument("runtime-version", plan.runtime_version + " for " + what,
                                 text_of(first) + " or later",
                                 "leave out --runtime-version to use the newest");
}

}  // namespace

LibraryTraits library_traits(const ModelSpec& spec, const ParallelPlan& plan) {
  LibraryTraits traits;
  const std::optional<int> version = number_of(plan.runtime_version);
  if (plan.runtime != "transformers" || !version || *version >= kMajorOf5) {
    return traits;
  }
  const FamilyReleases releases = releases_of(spec.family);
  traits.fourth = true;
  traits.ranges_masks = releases.ranges_masks && *version != releases.triangles_masks;
  traits.makes_no_mask = *version < releases.own_masks;
  traits.eager_alone = *version < releases.fused_attention;
  traits.returns_weights = *version >= 454;
  traits.narrow_loss = releases.narrow_loss && *version <= 447;
  traits.widens_logits = !releases.narrow_loss && *version <= 445;
  traits.shifts_logits = *version <= 448;
  traits.attention_classes = *version < releases.attention_functions;
  traits.layer_tables = *version < releases.model_tables;
  traits.replaces_modules = *version < releases.builds_once;
  traits.repeats_heads = *version <= 453;
  traits.contiguous_heads = *version >= 448 && *version <= 455;
  traits.masks_packed = *version >= std::max(453, releases.shared_masks);
  traits.scales_tables_late = *version <= 450;
  if (spec.moe) {
    traits.spare_class = *version >= 457;
    traits.loop = *version >= releases.expert_tensors   ? ExpertLoop::kTensors
                  : *version >= releases.expert_numbers ? ExpertLoop::kNumbers
                                                        : ExpertLoop::kAll;
  }
  return traits;
}

ExpertWeights expert_weights(const ModelSpec& spec, const ParallelPlan& plan) {
  const bool fused = library_traits(spec, plan).loop == ExpertLoop::kNone || spec.moe->expert_bias;
  return fused ? ExpertWeights::kFused : ExpertWeights::kModules;
}

std::optional<Error> version_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  if (plan.runtime_version.empty()) {
    return std::nullopt;
  }
  const std::optional<int> version = number_of(plan.runtime_version);
  const bool released = version && *version >= kOldest && *version <= kNewest &&
                        (*version <= kLastOf4 || *version >= kMajorOf5);
  if (!released) {
    return Error::invalid_argument("runtime-version", plan.runtime_version,
                                   "a version of transformers from 4.44 to 4.57 or 5.0 to 5.17",
                                   "leave out --runtime-version to use the newest");
  }
  if (*version >= kMajorOf5) {
    return std::nullopt;
  }
  if (const std::optional<Error> trouble = family_trouble(spec, plan, *version)) {
    return trouble;
  }
  struct Later {
    bool given;
    std::string_view option;
  };
  const bool balanced = spec.moe && spec.moe->auxiliary_loss;
  const std::array<Later, 8> later = {{{plan.liger, "--liger"},
                                       {plan.workload.generation.has_value(), "--generate"},
                                       {plan.workload.padded_batch, "--padded"},
                                       {plan.attention == AttentionKind::kFlash, "flash attention"},
                                       {plan.loss != LossKind::kHf, "--loss"},
                                       {plan.quant.has_value(), "--qlora"},
                                       {balanced, "output_router_logits"},
                                       {spec.task != Task::kLanguage, "a head that classifies"}}};
  const auto* const found = std::ranges::find(later, true, &Later::given);
  if (found == later.end()) {
    return std::nullopt;
  }
  return Error::invalid_argument(
      "runtime-version", plan.runtime_version + " with " + std::string(found->option),
      "version 5.0 or later: for older versions " + std::string(found->option) + " is not modelled",
      "leave out --runtime-version or " + std::string(found->option));
}

}  // namespace headroom::ir::transformers
