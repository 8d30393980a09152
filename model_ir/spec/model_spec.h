#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/spec/dtype.h"

namespace headroom::ir {

struct Recording;

/// The Hugging Face `model_type` whose modelling code runs. Order is that of `kFamilies`.
enum class Family : std::uint8_t {
  kLlama,
  kMistral,
  kMixtral,
  kQwen2,
  kQwen2Moe,
  kQwen3,
  kQwen3Moe,
  kGemma,
  kGemma2,
  kGemma3Text,
  kPhi3,
  kGpt2,
  kGptNeox,
  kOpt,
  kBloom,
  kFalcon,
  kDeepseekV2,
  kDeepseekV3,
  kGptOss,
  kGranite,
  kOlmo2,
  kCohere,
  kStarcoder2,
  kGlm4,
  kStablelm,
  kBert,
  kT5,
  kRecorded,  ///< `ModelSpec::recording` describes the model.
};

enum class Architecture : std::uint8_t { kCausalLm, kMaskedLm, kEncoderDecoder };

/// What the head on the hidden states predicts.
enum class Task : std::uint8_t {
  kLanguage,                ///< Tokens, as the architecture says.
  kSequenceClassification,  ///< One label for each sequence.
  kTokenClassification,     ///< One label for each token.
};

enum class NormKind : std::uint8_t {
  kRms,          ///< x / rms(x), times weight in the input's type (Llama).
  kRmsFp32,      ///< The weight multiplies in fp32, then one cast (OLMo 2, gpt-oss).
  kRmsGemma,     ///< (1 + weight) in fp32, then one cast (Gemma).
  kRmsT5,        ///< Llama's, but the fp32 copy is only of the variance (T5).
  kLayer,        ///< torch.nn.LayerNorm with weight and bias.
  kLayerNoBias,  ///< Cohere: fp32 mean and variance in Python, weight only.
};

/// Where the norms of a block are.
enum class NormPlacement : std::uint8_t {
  kPre,       ///< Before attention and before the MLP.
  kPost,      ///< Post-LayerNorm of the original transformer: after each residual addition (BERT).
  kOutput,    ///< On each sub-layer's output, before the addition (OLMo 2).
  kSandwich,  ///< Before and after both sub-layers (Gemma 2 and 3, GLM-4).
};

/// How attention and MLP of a block connect to the residual stream.
enum class ResidualForm : std::uint8_t {
  kSequential,
  kParallelOneNorm,   ///< Both read one norm's output (Falcon 7B, Cohere).
  kParallelTwoNorms,  ///< Each reads its own norm's output (GPT-NeoX, Falcon 40B).
};

enum class QkNorm : std::uint8_t {
  kNone,
  kPerHead,         ///< One weight of size D shared by all heads (Qwen3, Gemma 3).
  kFull,            ///< One weight over all heads: A*D and K*D (OLMo 2).
  kPerHeadWeights,  ///< A weight per head: A x D and K x D (Cohere, StableLM).
};

enum class PositionKind : std::uint8_t { kRope, kLearned, kAlibi, kRelativeBias, kNone };

enum class Activation : std::uint8_t { kSilu, kGelu, kGeluTanh, kGeluNew, kRelu, kGeluFast, kTanh };

/// Layout of the weights that make queries, keys and values.
enum class QkvLayout : std::uint8_t {
  kSeparate,
  kFused,       ///< One matrix; the outputs are views of its output.
  kFusedConv1d  ///< GPT-2's Conv1D: weight stored in x out, `addmm`.
};

/// Multi-head latent attention (DeepSeek-V2, section 2.1, arXiv:2405.04434).
struct LatentAttention {
  std::int64_t q_rank = 0;  ///< 0: queries are projected from the hidden state directly.
  std::int64_t kv_rank = 0;
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t v_dim = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// The mixture of experts in the sparse layers.
struct MoeSpec {
  std::int64_t experts = 0;      ///< E.
  std::int64_t top_k = 0;        ///< Experts per token.
  std::int64_t expert_ffn = 0;   ///< Width of one expert.
  std::int64_t shared_ffn = 0;   ///< Width of the shared expert(s) together; 0: none.
  bool shared_gate = false;      ///< Sigmoid gate on the shared expert (Qwen2-MoE).
  bool expert_bias = false;      ///< gpt-oss.
  bool router_bias = false;      ///< gpt-oss: a bias parameter of the router's Linear.
  bool correction_bias = false;  ///< DeepSeek-V3: e_score_correction_bias, a buffer.
  bool normalise_top_k = false;
  bool auxiliary_loss = false;  ///< output_router_logits: the loss has a load-balancing term.
  bool input_noise = false;     ///< Mixtral's router_jitter_noise, in training.
  std::int64_t groups = 1;      ///< Group-limited routing (DeepSeek).
  std::int64_t top_groups = 1;
  double scaling = 1;  ///< Factor on the weights of the chosen experts (routed_scaling_factor).
  friend bool operator==(const MoeSpec&, const MoeSpec&) = default;
};

/// How a rotary embedding is stretched beyond the lengths that it was trained for.
/// Source: huggingface/transformers modeling_rope_utils.py, ROPE_INIT_FUNCTIONS.
enum class RotaryScaling : std::uint8_t {
  kNone,
  kLinear,
  kLlama3,
  kYarn,
  kOther,  ///< Known by name alone (dynamic, longrope).
};

/// The numbers of a rotary embedding. No byte depends on them; commands that start a training name
/// them.
struct RotarySpec {
  std::optional<double> base;  ///< rope_theta; none: the file leaves it to the class.
  RotaryScaling scaling = RotaryScaling::kNone;
  double factor = 1;
  std::int64_t trained_positions = 0;  ///< original_max_position_embeddings; 0: not named.
  double mscale = 1;                   ///< YaRN's, of DeepSeek.
  double mscale_all = 0;
  /// Whether the bounds between frequencies are those that code has as its defaults: YaRN's
  /// beta_fast 32 and beta_slow 1, and Llama 3's factors 1 and 4.
  bool usual_bounds = true;
  friend bool operator==(const RotarySpec&, const RotarySpec&) = default;
};

/// What can differ from layer to layer.
struct LayerSpec {
  bool moe = false;
  std::uint32_t kind = 0;              ///< A recording's layers of one kind run the same code.
  std::optional<std::int64_t> window;  ///< Sliding-window size; none: full attention.
  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// Dropout probabilities in training mode.
struct DropoutSpec {
  double embedding = 0;
  double attention = 0;  ///< On the attention probabilities.
  double residual = 0;   ///< On the outputs of attention and MLP.
  double activation = 0;
  double classifier = 0.1;  ///< Before a head that classifies, if the code applies dropout there.
  friend bool operator==(const DropoutSpec&, const DropoutSpec&) = default;
};

/// The encoder of an encoder-decoder model. It shares all other dimensions with the decoder.
struct EncoderSpec {
  std::int64_t layers = 0;
  friend bool operator==(const EncoderSpec&, const EncoderSpec&) = default;
};

/// A transformer, as its modelling code builds it. Shape letters: H hidden, A heads, K KV heads, D
/// head size, F feed-forward, V vocabulary, L layers, E experts.
struct ModelSpec {
  std::string name;  ///< For people: catalogue name or file.
  Family family = Family::kLlama;
  /// The model's own code, recorded; null: the fields below describe it. With a recording, the
  /// fields that describe a family have no meaning.
  std::shared_ptr<const Recording> recording;
  Architecture architecture = Architecture::kCausalLm;
  Task task = Task::kLanguage;
  std::int64_t labels = 2;  ///< Outputs of a head that classifies; 1: a regression.
  bool pad_token = false;   ///< A padding token is known, so the code searches for the last token.

  std::int64_t hidden = 0;      ///< H
  std::int64_t heads = 0;       ///< A
  std::int64_t kv_heads = 0;    ///< K
  std::int64_t head_dim = 0;    ///< D
  std::int64_t ffn = 0;         ///< F of the dense MLP.
  std::int64_t vocabulary = 0;  ///< V
  std::int64_t max_positions = 0;
  std::vector<LayerSpec> layers;  ///< L entries; the decoder's where there are two stacks.
  std::optional<EncoderSpec> encoder;
  DType checkpoint_dtype =
      DType::kBf16;  ///< `torch_dtype` / `dtype` of the config; how weights are stored.

  NormKind norm = NormKind::kRms;
  std::optional<double> norm_epsilon;  ///< The number in the file, if any.
  NormPlacement norm_placement = NormPlacement::kPre;
  ResidualForm residual = ResidualForm::kSequential;
  QkNorm qk_norm = QkNorm::kNone;
  bool final_norm = true;
  bool embedding_norm = false;  ///< BLOOM, BERT.

  PositionKind position = PositionKind::kRope;
  double rope_fraction = 1.0;     ///< Rotated share of D (GPT-NeoX 0.25, Phi-3 1.0, GLM-4 0.5).
  bool rope_interleaved = false;  ///< Pairs (2i, 2i+1) instead of halves (Cohere, GLM-4, DeepSeek).
  bool local_rope = false;        ///< A second table for windowed layers (Gemma 3).
  RotarySpec rotary;
  std::int64_t position_rows = 0;     ///< Rows of a learned table (OPT: max_positions + 2).
  std::int64_t relative_buckets = 0;  ///< T5.
  std::int64_t token_types = 0;       ///< BERT.

  QkvLayout qkv = QkvLayout::kSeparate;
  bool qkv_bias = false;
  bool output_bias = false;      ///< Of the attention's output projection.
  bool attention_sinks = false;  ///< gpt-oss: one learned logit per head.
  std::optional<LatentAttention> latent;
  double attention_softcap = 0;  ///< Gemma 2; 0: none.
  double logit_softcap = 0;      ///< Gemma 2; 0: none.

  bool gated_mlp = true;
  bool fused_gate_up = false;  ///< Phi-3, GLM-4: one matrix of 2F rows.
  bool mlp_bias = false;
  Activation activation = Activation::kSilu;
  std::optional<MoeSpec> moe;

  bool tied_embeddings = false;
  bool head_bias = false;
  bool head_transform = false;  ///< BERT: dense + activation + norm before the decoder.
  std::int64_t embedding_dim =
      0;                       ///< OPT word_embed_proj_dim; equals H where there is no projection.
  double embedding_scale = 1;  ///< Gemma sqrt(H), Granite's multiplier; 1: no operator at all.
  double residual_scale = 1;   ///< Granite.
  double logit_scale = 1;      ///< Cohere, Granite.
  double attention_scale = 0;  ///< 0: 1/sqrt(D).
  DropoutSpec dropout;

  /// True: the code multiplies even if the factor is 1 (embedding: Gemma and Granite; residual:
  /// Granite; logits: Granite and Cohere). False: no operator.
  bool scales_embedding = false;
  bool scales_residual = false;
  bool scales_logits = false;
  double head_input_scale = 1;  ///< T5: on the decoder's output, before the head; 1: no operator.

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

}  // namespace headroom::ir
