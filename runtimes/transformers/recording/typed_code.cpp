#include "runtimes/transformers/recording/typed_code.h"

#include <algorithm>
#include <string_view>

#include "model_ir/plan/plan_words.h"
#include "runtimes/transformers/recording/unchanged_by_autocast.h"

namespace headroom::ir::transformers {
namespace {

/// The types of parameters and of autocast.
struct Types {
  DType parameters = DType::kBf16;
  std::optional<DType> autocast;

  bool operator==(const Types&) const = default;
};

Types types_of(Precision precision) {
  return {.parameters = param_dtype(precision), .autocast = autocast_dtype(precision)};
}

/// How code that was recorded in types `recorded` becomes that of `asked`; nothing if it does not.
std::optional<TypeChange> change_between(const Recording& recording, const Types& recorded,
                                         const Types& asked) {
  const bool autocast = recorded.autocast.has_value();
  if (autocast != asked.autocast.has_value()) {
    return std::nullopt;
  }
  if (autocast) {
    const bool halves =
        recorded == Types{DType::kFp32, DType::kBf16} && asked == Types{DType::kFp32, DType::kFp16};
    return halves ? std::optional(TypeChange{DType::kBf16, DType::kFp16}) : std::nullopt;
  }
  const bool derived = recorded.parameters == DType::kBf16 &&
                       (asked.parameters == DType::kFp32 ||
                        (asked.parameters == DType::kFp16 && !recording.differs_in_fp16));
  return derived ? std::optional(TypeChange{DType::kBf16, asked.parameters}) : std::nullopt;
}

enum class Fit : std::uint8_t { kNone, kChanged, kExact };

/// Whether code in bf16 serves bf16 weights under autocast to bf16.
bool serves_autocast(const Recording& recording, const RecordedVariant& variant,
                     const Types& asked) {
  return asked == Types{DType::kBf16, DType::kBf16} && variant.parameters == DType::kBf16 &&
         !variant.autocast && !variant.quantised && !variant.liger &&
         unchanged_by_autocast(recording, variant);
}

/// Whether a variant has the code of the plan's types and linear layers. Quantised layers return
/// the type of their input, as all layers do where weights and activations have one type: the
/// usual code serves them then.
Fit fit_of(const Recording& recording, const RecordedVariant& variant, const ParallelPlan& plan) {
  const Types recorded{.parameters = variant.parameters, .autocast = variant.autocast};
  const Types asked = types_of(plan.precision);
  if (variant.liger != plan.liger) {
    return Fit::kNone;
  }
  if (plan.quant) {
    const bool prepared = plan.quant->prepare_kbit;
    const bool one_type = !prepared && !variant.autocast;
    if (variant.prepared != prepared || !(variant.quantised || one_type)) {
      return Fit::kNone;
    }
  } else if (variant.quantised) {
    return Fit::kNone;
  }
  if (recorded == asked) {
    return Fit::kExact;
  }
  if (!plan.quant && serves_autocast(recording, variant, asked)) {
    return Fit::kChanged;
  }
  const std::optional<TypeChange> change = change_between(recording, recorded, asked);
  const bool half = change && change->to != DType::kFp32;
  return change && (half || !plan.quant) ? Fit::kChanged : Fit::kNone;
}

/// The variant with this attention that fits best; null if there is none.
const RecordedVariant* variant_with(const ModelSpec& spec, const ParallelPlan& plan,
                                    std::string_view attention) {
  const BatchSizes sizes = sizes_of(plan);
  const RecordedVariant* best = nullptr;
  Fit best_fit = Fit::kNone;
  for (const RecordedVariant& variant : spec.recording->variants) {
    const Fit fit = fit_of(*spec.recording, variant, plan);
    if (fit == Fit::kNone || variant.attention != attention ||
        !variant.images.take(plan.workload.images) || variant.masks_made || !variant.takes(sizes)) {
      continue;
    }
    const bool closer = best == nullptr || fit > best_fit;
    const bool alone = fit == best_fit && variant.micro_batch && !best->micro_batch;
    if (closer || alone) {
      best = &variant;
      best_fit = fit;
    }
  }
  return best;
}

}  // namespace

std::vector<std::string> precisions_of(const Recording& recording, const RecordedVariant& variant) {
  const Types recorded{.parameters = variant.parameters, .autocast = variant.autocast};
  std::vector<std::string> names;
  for (const auto& word : precision_words()) {
    const Types types = types_of(word.value);
    const bool master =
        word.value == Precision::kBf16Master || word.value == Precision::kFp16Master;
    if (!master && (recorded == types || change_between(recording, recorded, types) ||
                    serves_autocast(recording, variant, types))) {
      names.emplace_back(word.text);
    }
  }
  const auto same = std::ranges::find_if(
      precision_words(), [&](const auto& word) { return types_of(word.value) == recorded; });
  if (same != precision_words().end()) {  // The recorded one comes first.
    std::ranges::stable_partition(names,
                                  [&](const std::string& name) { return name == same->text; });
  }
  if (names.empty()) {
    names.push_back(
        std::string(name_of(variant.parameters)) +
        (variant.autocast ? " under autocast to " + std::string(name_of(*variant.autocast)) : ""));
  }
  return names;
}

bool computes(const Recording& recording, const RecordedVariant& variant,
              const ParallelPlan& plan) {
  return fit_of(recording, variant, plan) != Fit::kNone;
}

std::string_view attention_for(const ModelSpec& spec, const ParallelPlan& plan) {
  const bool fused =
      plan.attention == AttentionKind::kSdpa || plan.attention == AttentionKind::kSdpaNoCudnn;
  if (!fused) {
    return word_of(attention_words(), plan.attention);
  }
  return spec.recording->has_fused_attention() ? "sdpa" : "eager";
}

std::optional<TypedCode> code_for(const ModelSpec& spec, const ParallelPlan& plan) {
  const RecordedVariant* const variant = variant_with(spec, plan, attention_for(spec, plan));
  if (variant == nullptr) {
    return std::nullopt;
  }
  const Types recorded{.parameters = variant->parameters, .autocast = variant->autocast};
  TypedCode code{.variant = variant, .change = {}, .load = variant->load.get(), .load_change = {}};
  code.change = change_between(*spec.recording, recorded, types_of(plan.precision));
  code.load_change = code.change;
  code.given_mask = plan.workload.padded_batch && variant->attention != "sdpa";
  const DType parameters = param_dtype(plan.precision);
  if (variant->parameters != parameters) {
    const auto& variants = spec.recording->variants;
    const auto same = std::ranges::find_if(variants, [&](const RecordedVariant& one) {
      return one.parameters == parameters && !one.quantised && !one.liger;
    });
    if (same != variants.end()) {
      code.load = same->load.get();
      code.load_change.reset();
    }
  }
  return code;
}

}  // namespace headroom::ir::transformers
