#include "runtimes/transformers/modeling.h"

#include <algorithm>
#include <array>

#include "runtimes/transformers/library_version.h"

namespace headroom::ir::transformers {
namespace {

Modeling modeling_of_experts_and_encoders(Family family) {
  Modeling modeling;
  switch (family) {
    case Family::kBert:
      modeling.scores = EagerScores::kPlain;
      modeling.nests_modules = true;
      modeling.dropout_modules = true;
      break;
    case Family::kT5:
      modeling.mask = MaskSource::kUnchecked;
      modeling.scores = EagerScores::kPlain;
      modeling.normed = NormedName::kAttention;
      modeling.drops_in_sum = true;
      modeling.dropout_modules = true;
      modeling.names_gate = true;
      modeling.widens_down = true;
      break;
    case Family::kQwen2Moe:
      modeling.makes_both_masks = true;
      break;
    case Family::kGptOss:
      modeling.mask = MaskSource::kUnchecked;
      modeling.rope = RopeForm::kHalfTables;
      break;
    case Family::kDeepseekV2:
      modeling.rope = RopeForm::kComplex;
      modeling.expert_layers = ExpertLayers::kQwen;
      break;
    case Family::kDeepseekV3:
      modeling.experts_method = true;
      [[fallthrough]];
    case Family::kQwen3Moe:
      modeling.expert_layers = ExpertLayers::kQwen;
      break;
    case Family::kMixtral:
      modeling.expert_layers = ExpertLayers::kMixtral;
      break;
    default:
      break;  // The others are like Llama.
  }
  return modeling;
}

}  // namespace

ExpertLayers expert_layers_of_type(std::string_view type) {
  constexpr std::array<std::string_view, 3> kMixtralTypes = {"minimax", "minimax_m2", "mixtral"};
  constexpr std::array<std::string_view, 23> kQwenTypes = {
      "afmoe",       "deepseek_v2",    "deepseek_v3",    "deepseek_v32",
      "dots1",       "ernie4_5_moe",   "glm4_moe",       "glm4_moe_lite",
      "glm_moe_dsa", "glm4v_moe",      "longcat_flash",  "solar_open",
      "mellum",      "qwen3_moe",      "qwen3_omni_moe", "qwen3_omni_moe_thinker",
      "qwen3_next",  "hunyuan_v1_moe", "flex_olmo",      "olmoe",
      "exaone_moe",  "cohere2_moe",    "qwen2_moe"};
  if (std::ranges::find(kMixtralTypes, type) != kMixtralTypes.end()) {
    return ExpertLayers::kMixtral;
  }
  return std::ranges::find(kQwenTypes, type) != kQwenTypes.end() ? ExpertLayers::kQwen
                                                                 : ExpertLayers::kNone;
}

Modeling modeling_of(Family family) {
  Modeling modeling;
  switch (family) {
    case Family::kGemma2:
      modeling.liger_norms_in_place = false;
      modeling.liger_final_in_place = false;
      break;
    case Family::kGemma3Text:
      modeling.views = HeadViews::kNorm;
      modeling.liger_norms_in_place = false;
      modeling.liger_final_in_place = false;
      break;
    case Family::kGranite:
      modeling.embedding_scales = false;
      break;
    case Family::kGpt2:
      modeling.dropout_modules = true;
      modeling.split = QkvSplit::kOneOperator;
      modeling.scores = EagerScores::kNarrow;
      modeling.normed = NormedName::kAddition;
      modeling.names_sublayers = true;
      break;
    case Family::kGptNeox:
      modeling.split = QkvSplit::kHeadChunks;
      modeling.rope = RopeForm::kSliced;
      modeling.names_sublayers = true;
      break;
    case Family::kGlm4:
      modeling.rope = RopeForm::kSliced;
      modeling.repeats_table = true;
      modeling.liger_norms_in_place = false;
      modeling.liger_final_in_place = false;
      modeling.liger_rotates = false;
      break;
    case Family::kStablelm:
      modeling.views = HeadViews::kLast;
      modeling.rope = RopeForm::kNamed;
      modeling.normed = NormedName::kFirst;
      modeling.names_sublayers = true;
      break;
    case Family::kPhi3:
      modeling.rope = RopeForm::kEach;
      break;
    case Family::kCohere:
      modeling.rope = RopeForm::kWidened;
      modeling.normed = NormedName::kLayer;
      modeling.names_sublayers = true;
      break;
    case Family::kOlmo2:
      modeling.views = HeadViews::kLast;
      modeling.rope = RopeForm::kPromoted;
      modeling.liger_norms_in_place = false;
      modeling.liger_head_norms = false;
      break;
    case Family::kOpt:
      modeling.mask = MaskSource::kOnes;
      modeling.flattens_mlp = true;
      break;
    case Family::kBloom:
      modeling.mask = MaskSource::kOnes;
      modeling.split = QkvSplit::kHeadSelects;
      modeling.normed = NormedName::kNext;
      modeling.python_gelu = true;
      modeling.names_inputs = true;
      modeling.returns_weights = true;
      modeling.scores = EagerScores::kBiased;
      break;
    case Family::kFalcon:
      modeling.mask = MaskSource::kAlways;
      modeling.scores = EagerScores::kInPlace;
      modeling.names_sublayers = true;
      modeling.split = QkvSplit::kMultiQuery;
      modeling.multiplies_weights = true;
      modeling.masks_keys_alone = true;
      modeling.adds_in_place = true;
      modeling.returns_weights = true;
      modeling.normed = NormedName::kLayer;
      break;
    default:
      return modeling_of_experts_and_encoders(family);
  }
  return modeling;
}

Modeling modeling_of(const ModelSpec& spec, const ParallelPlan& plan) {
  Modeling modeling = modeling_of(spec.family);
  const LibraryTraits library = library_traits(spec, plan);
  if (library.attention_classes && spec.position == PositionKind::kRope) {
    modeling.views = HeadViews::kLast;  // When all three projections have been made.
  }
  if (!library.fourth) {
    return modeling;
  }
  switch (spec.family) {
    case Family::kT5:
      modeling.adds_to_scores = true;
      break;
    case Family::kGpt2:
      modeling.scores = EagerScores::kWhere;
      break;
    case Family::kBert:
      modeling.sums_in_place = true;
      modeling.scores = EagerScores::kNamed;
      modeling.returns_weights = library.returns_weights;
      modeling.drops_weights = !library.returns_weights;
      modeling.views_query_last = !library.returns_weights && runs_eager(spec, plan);
      break;
    case Family::kBloom:
    case Family::kFalcon:
      modeling.returns_weights = library.returns_weights;
      modeling.drops_weights = !library.returns_weights;
      break;
    case Family::kStablelm:
      modeling.scores = EagerScores::kMaskedInPlace;
      break;
    case Family::kGemma:
    case Family::kGemma2:
      modeling.scales_after_tables = true;
      modeling.embedding_scales = false;
      break;
    case Family::kOpt:
      modeling.views = HeadViews::kQuery;
      break;
    case Family::kQwen2Moe:
      modeling.makes_both_masks = false;
      break;
    case Family::kDeepseekV2:
    case Family::kDeepseekV3:
      modeling.expands_first = true;
      break;
    default:
      break;
  }
  return modeling;
}

std::int64_t rotated_dims(const ModelSpec& spec) {
  return spec.latent
             ? spec.latent->rope_dim
             : static_cast<std::int64_t>(static_cast<double>(spec.head_dim) * spec.rope_fraction);
}

bool runs_eager(const ModelSpec& spec, const ParallelPlan& plan) {
  return plan.attention == AttentionKind::kEager || only_eager(spec) ||
         library_traits(spec, plan).eager_alone;
}

bool only_eager(const ModelSpec& spec) {
  return spec.attention_sinks || modeling_of(spec.family).scores == EagerScores::kBiased;
}

}  // namespace headroom::ir::transformers
