#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/graph/param_table.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// Which experts a mixture loops over in Python.
enum class ExpertLoop : std::uint8_t {
  kNone,     ///< No loop: grouped products (5.x).
  kAll,      ///< All of them.
  kNumbers,  ///< Those that tokens chose, whose numbers the host reads.
  kTensors,  ///< The same, each as a tensor, which copies its part of the mask.
};

/// What the library did otherwise in earlier versions; by default, what 5.x does.
/// Source: huggingface/transformers, the files of each release: models/*/modeling_*.py,
///         loss/loss_utils.py, integrations/sdpa_attention.py, masking_utils.py,
///         modeling_attn_mask_utils.py.
struct LibraryTraits {
  /// Until 4.45 forward widened the logits itself and let the narrow ones go; after that the loss
  /// function does, and both are alive.
  bool widens_logits = false;
  /// The family's own loss took the logits as they are: nothing is widened.
  bool narrow_loss = false;
  /// Until 4.48 a copy of all logits but the last token's was made; then labels are shifted.
  bool shifts_logits = false;
  /// A family had attention classes of its own, which repeated the heads of keys and values under
  /// the same names, until it took ALL_ATTENTION_FUNCTIONS (Llama: 4.48).
  bool attention_classes = false;
  /// Each layer had rotary tables of its own beside the model's.
  bool layer_tables = false;
  /// Until 4.53 heads were repeated for sdpa; then enable_gqa, where there is no mask.
  bool repeats_heads = false;
  /// From 4.48 to 4.55 queries, keys and values were made contiguous for sdpa.
  bool contiguous_heads = false;
  /// From 4.53 to 4.57 positions were searched for packed sequences and the outcome was not read
  /// back: a model that is passed no mask made one. Before, they were not searched.
  bool masks_packed = false;
  /// Until 4.50 the rotary tables were scaled when both had been made.
  bool scales_tables_late = false;
  /// Until masking_utils.py made them (Llama: 4.53) an eager mask was filled with the lowest number
  /// and multiplied by what is hidden.
  bool fills_masks = false;
  /// The family had no fused attention yet: asked for sdpa by default, it runs eager.
  bool eager_alone = false;
  /// Until 4.53 weights that nobody asked for were left out of what a layer returned.
  bool returns_weights = true;
  /// The scores were masked by a buffer of the attention alone (GPT-2 until 4.51).
  bool makes_no_mask = false;
  /// A filled mask is multiplied by what is hidden and was no triangle first (Mistral).
  bool ranges_masks = false;
  /// Until 5.0 each expert was a module.
  ExpertLoop loop = ExpertLoop::kNone;
  /// A layer's constructor made attention and a dense MLP that it replaced (Qwen3-MoE 4.51).
  bool replaces_modules = false;
  /// gpt-oss counts a class more than there are experts (4.57).
  bool spare_class = false;
  /// 4.x: one rotary buffer, made once, from 64-bit integers; and one tensor of positions.
  bool fourth = false;
};

/// Traits of `plan.runtime_version`, "4.44" to "5.17", for the model's family; the newest for an
/// empty one.
[[nodiscard]] LibraryTraits library_traits(const ModelSpec& spec, const ParallelPlan& plan);

/// How that release holds the weights of experts.
[[nodiscard]] ExpertWeights expert_weights(const ModelSpec& spec, const ParallelPlan& plan);

/// Why the plan's version is not followed: not a version, older than 4.44, newer than what is
/// modelled, or a family or an option whose code of that time is not.
[[nodiscard]] std::optional<Error> version_trouble(const ModelSpec& spec, const ParallelPlan& plan);

}  // namespace headroom::ir::transformers
