#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/graph/param_table.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// The experts over which a mixture loops in Python.
enum class ExpertLoop : std::uint8_t {
  kNone,     ///< No loop: grouped products (5.x).
  kAll,      ///< All of them.
  kNumbers,  ///< Those that tokens chose; the host reads their numbers.
  kTensors,  ///< The same, each as a tensor; its part of the mask is copied.
};

/// How earlier versions of the library differ; the defaults are those of 5.x.
/// Source: huggingface/transformers, the files of each release: models/*/modeling_*.py,
///         loss/loss_utils.py, integrations/sdpa_attention.py, masking_utils.py,
///         modeling_attn_mask_utils.py.
struct LibraryTraits {
  /// Until 4.45, forward cast the logits to fp32 and released the narrow ones. Since then, the loss
  /// function casts them, and both are alive.
  bool widens_logits = false;
  /// The family's own loss used the logits unchanged, without a cast to fp32.
  bool narrow_loss = false;
  /// Until 4.48, all logits but the last token's were copied; since then, labels are shifted.
  bool shifts_logits = false;
  /// A family had its own attention classes, which repeated the heads of keys and values under the
  /// same names, until it adopted ALL_ATTENTION_FUNCTIONS (Llama: 4.48).
  bool attention_classes = false;
  /// Each layer had its own rotary tables in addition to the model's.
  bool layer_tables = false;
  /// Until 4.53, heads were repeated for sdpa; since then, enable_gqa is used if there is no mask.
  bool repeats_heads = false;
  /// From 4.48 to 4.55 queries, keys and values were made contiguous for sdpa.
  bool contiguous_heads = false;
  /// From 4.53 to 4.57, positions were checked for packed sequences and the result was not read
  /// back, so a model without a given mask made one. Earlier, they were not checked.
  bool masks_packed = false;
  /// Until 4.50, both rotary tables were made before they were scaled.
  bool scales_tables_late = false;
  /// The family had no fused attention yet; a default request for sdpa runs eager.
  bool eager_alone = false;
  /// Until 4.53, a layer's result left out attention weights that nobody requested.
  bool returns_weights = true;
  /// Only a buffer of the attention masked the scores (GPT-2 until 4.51).
  bool makes_no_mask = false;
  /// A filled mask did not begin as a triangle, only multiplied (Mistral).
  bool ranges_masks = false;
  /// Until 5.0 each expert was a module.
  ExpertLoop loop = ExpertLoop::kNone;
  /// A layer's constructor made attention and a dense MLP and then replaced them (Qwen3-MoE 4.51).
  bool replaces_modules = false;
  /// gpt-oss counts one class more than there are experts (4.57).
  bool spare_class = false;
  /// 4.x: one rotary buffer, made once, from 64-bit integers; and one tensor of positions.
  bool fourth = false;
};

/// Traits of `plan.runtime_version`, "4.44" to "5.17", for the model's family; those of the newest
/// if it is empty.
[[nodiscard]] LibraryTraits library_traits(const ModelSpec& spec, const ParallelPlan& plan);

/// How that release stores the weights of experts.
[[nodiscard]] ExpertWeights expert_weights(const ModelSpec& spec, const ParallelPlan& plan);

/// Why the plan's version is not supported: it is not a version, is older than 4.44 or newer than
/// the modelled ones, or its code for the family or an option is not modelled.
[[nodiscard]] std::optional<Error> version_trouble(const ModelSpec& spec, const ParallelPlan& plan);

}  // namespace headroom::ir::transformers
