#pragma once

#include <cstdint>
#include <string_view>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// Which attention masks a model's forward makes. Without padding, sdpa needs none unless a window
/// limits the sequence.
enum class MaskSource : std::uint8_t {
  kPositions,  ///< None is passed; positions are checked for packed sequences first.
  kOnes,       ///< The model makes a padding mask of ones itself (OPT, BLOOM).
  kUnchecked,  ///< None is passed, and no positions to check (gpt-oss, T5).
  kAlways,     ///< The causal mask is always made, even if sdpa does not need it (Falcon).
};

/// How apply_rotary_pos_emb treats queries and keys.
enum class RopeForm : std::uint8_t {
  kWhole,       ///< The whole head; kSliced if only a part is rotated.
  kSliced,      ///< Both are split, then rotated, then concatenated (GPT-NeoX, GLM-4).
  kNamed,       ///< As kSliced, and the attention module's frame holds the parts (StableLM).
  kEach,        ///< Both are split; each is rotated and concatenated in one expression (Phi-3).
  kWidened,     ///< Queries and keys are cast to fp32 and back (Cohere).
  kHalfTables,  ///< Tables of half a head; chunk(2) instead of rotate_half (gpt-oss).
  kComplex,     ///< Pairs as complex numbers, in fp32 (DeepSeek-V2).
  kPromoted,    ///< The fp32 tables promote the products; the results are cast back (OLMo 2).
};

/// How the output of a fused projection is split.
enum class QkvSplit : std::uint8_t {
  kSlices,       ///< [..., :n] and so on, each with its own backward (Phi-3).
  kOneOperator,  ///< split (GPT-2).
  kHeadChunks,   ///< Each head's chunk(3) (GPT-NeoX).
  kHeadSelects,  ///< [..., 0, :], [..., 1, :], [..., 2, :] of [B, S, A, 3, D] (BLOOM).
  kMultiQuery,   ///< [..., :-2, :], [..., [-2], :], [..., [-1], :] (Falcon with one key head).
};

/// The softmax attention that a family runs if no fused kernel does.
enum class EagerScores : std::uint8_t {
  kWide,     ///< matmul, scale, mask, softmax in fp32, cast.
  kNarrow,   ///< The softmax stays in the scores' type (GPT-2).
  kWhere,    ///< As kNarrow, divided by a tensor and masked by a buffer (GPT-2 until 4.57).
  kBiased,   ///< baddbmm onto the ALiBi bias, then as kWide (BLOOM).
  kInPlace,  ///< Scores are divided in place; softmax in the type of the hidden states (Falcon).
  kPlain,    ///< As kNarrow; the weights keep the softmax's type (BERT, T5).
  kNamed,    ///< As kPlain; the masked scores have their own name (BERT until 4.57).
  kMaskedInPlace,  ///< As kWide; the mask is added in place (StableLM until 4.57).
};

/// How long a decoder layer's frame holds the normalised input of a sub-layer.
enum class NormedName : std::uint8_t {
  kCall,      ///< While the sub-layer runs.
  kAddition,  ///< Until the residual addition assigns the name again (GPT-2).
  kNext,      ///< Until the next norm's output takes the name (BLOOM).
  kFirst,     ///< The attention's input until the layer returns (StableLM).
  kLayer,     ///< Until the layer returns (Cohere, Falcon).
  kAttention  ///< For attention until the addition; for an MLP while it runs (T5).
};

/// When the projections of an attention are viewed as heads.
enum class HeadViews : std::uint8_t {
  kEach,   ///< As soon as each is made; a norm of heads runs before the transposition.
  kLast,   ///< After all three and their norms (OLMo 2, StableLM).
  kQuery,  ///< Queries as soon as they are made, keys and values after both (OPT, 4.x).
  kNorm,   ///< As kEach, but the norm runs on transposed heads (Gemma 3).
};

/// The linear layers that PEFT finds in a model's experts, although transformers 5 fused them.
enum class ExpertLayers : std::uint8_t {
  kNone,     ///< Nothing: only linear layers are adapted.
  kMixtral,  ///< w1, w2, w3 and gate.
  kQwen,     ///< gate_proj, up_proj, down_proj and gate.
};

/// The linear layers that PEFT finds in the experts of a recorded `model_type`.
/// Source: huggingface/transformers 5.17.0, conversion_mapping.py, _MODEL_TO_CONVERSION_PATTERN, of
/// which huggingface/peft 0.21.2, utils/transformers_weight_conversion.py, translates mixtral and
/// qwen2_moe.
[[nodiscard]] ExpertLayers expert_layers_of_type(std::string_view type);

/// How the families' modelling code differs beyond the operators of the graph.
/// Source: huggingface/transformers models/*/modeling_*.py.
struct Modeling {
  MaskSource mask = MaskSource::kPositions;
  RopeForm rope = RopeForm::kWhole;
  bool repeats_table = false;  ///< GLM-4 interleaves copies of the tables in every layer.
  QkvSplit split = QkvSplit::kSlices;
  HeadViews views = HeadViews::kEach;
  EagerScores scores = EagerScores::kWide;
  NormedName normed = NormedName::kCall;
  bool names_sublayers = false;  ///< Outputs of attention and MLP have their own names.
  ExpertLayers expert_layers = ExpertLayers::kNone;
  bool masks_keys_alone =
      false;  ///< A filled mask has no more columns than there are keys (Falcon).
  bool makes_both_masks = false;    ///< The windowed mask is made even if no layer has a window.
  bool adds_in_place = false;       ///< `mlp_output += attention_output` (Falcon).
  bool names_inputs = false;        ///< The input of a module's last projection has a name (BLOOM).
  bool embedding_scales = true;     ///< The embedding's module scales it (not Granite's).
  bool returns_weights = false;     ///< The loop over layers holds the last layer's result.
  bool flattens_mlp = false;        ///< The MLP works on [B*S, H] views (OPT).
  bool drops_in_sum = false;        ///< `hidden + dropout(x)`: x keeps its name until then (T5).
  bool names_gate = false;          ///< A gated MLP has names for both factors (T5).
  bool widens_down = false;         ///< An MLP's last input is cast to the weight's type (T5).
  bool multiplies_weights = false;  ///< input @ weight.T instead of F.linear (Falcon).
  bool nests_modules = false;       ///< Attention and MLP are two modules each, within one (BERT).
  bool python_gelu = false;         ///< An autograd function that keeps its input (BLOOM).
  bool scales_after_tables = false;  ///< The embedding is scaled after masks and tables (Gemma).
  bool adds_to_scores = false;       ///< The bias has the mask and is added to the scores (T5,
                                     ///< 4.x).
  bool views_query_last = false;     ///< Queries are viewed as heads after the values.
  bool drops_weights = false;        ///< Attention weights are released when the attention returns.
  bool experts_method = false;       ///< A loop over experts is a separate method (DeepSeek).
  bool expands_first = false;        ///< Latents are expanded before the rotation (DeepSeek, 4.x).
  bool sums_in_place = false;        ///< `embeddings += position_embeddings` (BERT until 4.57).
  bool dropout_modules = false;      ///< Dropout is a module that wrappers hook (BERT, T5).
  /// Liger's norms write their input's gradient over their output's, except if two norms follow
  /// each other with the residual between them.
  bool liger_norms_in_place = true;
  bool liger_final_in_place = true;  ///< The same of the norm behind the layers.
  bool liger_rotates = true;         ///< Liger's patch has a rotation (not GLM-4's).
  bool liger_head_norms = true;      ///< Liger patches a model's norms of heads (not OLMo 2's).
};

[[nodiscard]] Modeling modeling_of(Family family);
/// The same for the release that `plan` names.
[[nodiscard]] Modeling modeling_of(const ModelSpec& spec, const ParallelPlan& plan);

/// Whether the model makes a padding mask if none is passed.
[[nodiscard]] inline bool makes_padding_mask(Family family) {
  return modeling_of(family).mask == MaskSource::kOnes;
}

/// Dims of a head that rotary embedding rotates.
[[nodiscard]] std::int64_t rotated_dims(const ModelSpec& spec);

/// Whether the family's code only has softmax attention in Python (BLOOM, gpt-oss).
[[nodiscard]] bool only_eager(const ModelSpec& spec);
/// Whether eager attention runs: requested, or the only one in the family's code of that release.
[[nodiscard]] bool runs_eager(const ModelSpec& spec, const ParallelPlan& plan);

}  // namespace headroom::ir::transformers
