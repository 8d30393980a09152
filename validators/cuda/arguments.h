#pragma once

#include <cstdint>

/// Arguments of the kernels: one structure for each, passed by value, so that the two compilers
/// which see them cannot disagree about their order. `kKernel` is the kernel's name, to which the
/// names of its element types are added. Shape letters and meanings are those of device_abi.h.
namespace headroom::cuda {

// --- Making data, embedding -------------------------------------------------------------------

struct FillArguments {
  static constexpr const char* kKernel = "fill_elements";
  void* out;
  int64_t count;
  float value;
};

struct RandomNormalArguments {
  static constexpr const char* kKernel = "random_normal";
  void* out;
  int64_t begin, count, columns, row_offset, column_offset, whole_columns;
  uint64_t seed;
  double mean, deviation;
};

struct RandomTokensArguments {
  static constexpr const char* kKernel = "random_tokens";
  int32_t* out;
  int64_t begin, count, limit;
  uint64_t seed;
};

struct EmbeddingArguments {
  static constexpr const char* kKernel = "embedding";
  void* out;
  const void* table;
  const int32_t* ids;
  int64_t tokens, columns, first, table_rows;
};

struct EmbeddingBackwardArguments {
  static constexpr const char* kKernel = "embedding_backward";
  void* dtable;
  const void* dout;
  const int32_t* ids;
  int64_t tokens, columns, first, table_rows;
};

struct AddPositionsArguments {
  static constexpr const char* kKernel = "add_positions";
  void* x;
  const void* table;
  int64_t tokens, columns, sequence;
};

struct AddPositionsBackwardArguments {
  static constexpr const char* kKernel = "add_positions_backward";
  void* dtable;
  const void* dout;
  int64_t tokens, columns, sequence;
};

// --- Elementwise --------------------------------------------------------------------------------

struct CastArguments {
  static constexpr const char* kKernel = "cast_elements";
  void* to;
  const void* from;
  int64_t count;
};

struct AddArguments {
  static constexpr const char* kKernel = "add_elements";
  void* out;
  const void* a;
  const void* b;
  int64_t count;
};

struct AccumulateArguments {
  static constexpr const char* kKernel = "accumulate";
  void* to;
  const void* from;
  int64_t count;
  float factor;
};

struct ScaleArguments {
  static constexpr const char* kKernel = "scale_elements";
  void* x;
  int64_t count;
  float factor;
};

/// A factor of 0 makes zeros of everything, NaN included.
struct ScaleMatrixArguments {
  static constexpr const char* kKernel = "scale_matrix";
  void* x;
  int64_t x_row, rows, columns;
  float factor;
};

struct AddBiasArguments {
  static constexpr const char* kKernel = "add_bias";
  void* x;
  int64_t x_row;
  const void* bias;
  int64_t rows, columns;
};

struct ActivationArguments {
  static constexpr const char* kKernel = "activation";
  void* out;
  const void* x;
  int64_t count;
  int32_t function;
};

struct ActivationBackwardArguments {
  static constexpr const char* kKernel = "activation_backward";
  void* dx;
  const void* dout;
  const void* x;
  int64_t count;
  int32_t function;
};

struct GatedArguments {
  static constexpr const char* kKernel = "gated";
  void* out;
  const void* gate;
  const void* up;
  int64_t in_row, rows, columns;
  int32_t function;
};

struct GatedBackwardArguments {
  static constexpr const char* kKernel = "gated_backward";
  void* dgate;
  void* dup;
  const void* dout;
  const void* gate;
  const void* up;
  int64_t in_row, rows, columns;
  int32_t function;
};

// --- Sums over rows, norms ----------------------------------------------------------------------

/// partial[p, c] = sum over the rows r = p, p + partial_rows, ... of x[r, c].
struct ColumnSumArguments {
  static constexpr const char* kKernel = "column_sum";
  float* partial;
  const void* x;
  int64_t x_row, rows, columns;
  int64_t partial_rows;
};

/// sum[c] += sum over p of partial[p, c].
struct PartialSumArguments {
  static constexpr const char* kKernel = "partial_sum";
  void* sum;
  const float* partial;
  int64_t partial_rows, columns;
};

struct NormArguments {
  static constexpr const char* kKernel = "norm";
  void* y;
  float* mean;
  float* rstd;
  const void* x;
  const void* weight;
  const void* bias;
  int64_t y_row, x_row, columns;
  float epsilon;
  int32_t centred;  ///< LayerNorm.
};

struct NormInputGradientArguments {
  static constexpr const char* kKernel = "norm_input_gradient";
  void* dx;
  const void* dy;
  const void* x;
  const void* weight;
  const float* mean;
  const float* rstd;
  int64_t dy_row, x_row, columns;
  int32_t centred;
};

/// Partial sums of dweight, and of dbias if `bias_partial` is there.
struct NormWeightGradientArguments {
  static constexpr const char* kKernel = "norm_weight_gradient";
  float* weight_partial;
  float* bias_partial;
  const void* dy;
  const void* x;
  const float* mean;
  const float* rstd;
  int64_t dy_row, x_row, rows, columns;
  int64_t partial_rows;
  int32_t centred;
};

// --- Rotary embedding, softmax, attention -------------------------------------------------------

struct RopeTableArguments {
  static constexpr const char* kKernel = "rope_table";
  float* table;
  int64_t positions, rotated;
  double theta;
};

struct RopeArguments {
  static constexpr const char* kKernel = "rope";
  void* x;
  const float* table;
  int64_t x_row, tokens, sequence, heads, head_dim, rotated;
  int32_t interleaved, inverse;
};

struct CausalSoftmaxArguments {
  static constexpr const char* kKernel = "causal_softmax";
  void* probabilities;
  const void* scores;
  int64_t queries, keys, window;
  float scale;
};

struct SoftmaxBackwardArguments {
  static constexpr const char* kKernel = "softmax_backward";
  void* dscores;
  const void* dprobabilities;
  const void* probabilities;
  int64_t keys;
  float scale;
};

/// The arguments that all kernels of the fused attention have in common.
struct FusedAttention {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  float* log_sum;
  const void* dout;
  void* dq;
  void* dk;
  void* dv;
  float* delta;
  int64_t q_row, k_row, v_row, out_row, dout_row, dq_row, dk_row, dv_row;
  int64_t batch, sequence, heads, kv_heads, head_dim, window;
  float scale;
};

/// One warp for each query; any head size up to 256.
struct AttentionRowsArguments : FusedAttention {
  static constexpr const char* kKernel = "attention_rows";
};
struct AttentionDeltaArguments : FusedAttention {
  static constexpr const char* kKernel = "attention_delta";
};
struct AttentionQueryGradientRowsArguments : FusedAttention {
  static constexpr const char* kKernel = "attention_query_gradient_rows";
};
struct AttentionKeyGradientRowsArguments : FusedAttention {
  static constexpr const char* kKernel = "attention_key_gradient_rows";
};
/// Tiles of 64 queries or keys on tensor cores; head sizes up to 64 or up to 128.
struct AttentionTiles64Arguments : FusedAttention {
  static constexpr const char* kKernel = "attention_tiles_64";
};
struct AttentionTiles128Arguments : FusedAttention {
  static constexpr const char* kKernel = "attention_tiles_128";
};
struct AttentionQueryGradientTiles64Arguments : FusedAttention {
  static constexpr const char* kKernel = "attention_query_gradient_tiles_64";
};
struct AttentionQueryGradientTiles128Arguments : FusedAttention {
  static constexpr const char* kKernel = "attention_query_gradient_tiles_128";
};
struct AttentionKeyGradientTiles64Arguments : FusedAttention {
  static constexpr const char* kKernel = "attention_key_gradient_tiles_64";
};
struct AttentionKeyGradientTiles128Arguments : FusedAttention {
  static constexpr const char* kKernel = "attention_key_gradient_tiles_128";
};

// --- Cross entropy ------------------------------------------------------------------------------

struct LogitStatisticsArguments {
  static constexpr const char* kKernel = "logit_statistics";
  float* row_max;
  float* row_sum;
  float* row_target;
  const void* logits;
  const int32_t* labels;
  int64_t columns, first;
};

struct RescaleSumsArguments {
  static constexpr const char* kKernel = "rescale_sums";
  float* row_sum;
  const float* row_max;
  const float* whole_max;
  int64_t rows;
};

struct CrossEntropyLossArguments {
  static constexpr const char* kKernel = "cross_entropy_loss";
  float* loss;
  const float* row_max;
  const float* row_sum;
  const float* row_target;
  const int32_t* labels;
  int64_t rows;
  float factor;
};

struct CrossEntropyBackwardArguments {
  static constexpr const char* kKernel = "cross_entropy_backward";
  void* dlogits;
  const void* logits;
  const float* row_max;
  const float* row_sum;
  const int32_t* labels;
  int64_t rows, columns, first;
  float factor;
};

// --- Mixture of experts -------------------------------------------------------------------------

struct RouteArguments {
  static constexpr const char* kKernel = "route";
  float* probabilities;
  float* weights;
  int32_t* experts;
  const void* logits;
  int64_t expert_count, top_k;
  int32_t normalise;
};

struct RouteBackwardArguments {
  static constexpr const char* kKernel = "route_backward";
  void* dlogits;
  const float* dweights;
  const float* probabilities;
  const int32_t* experts;
  int64_t expert_count, top_k;
  int32_t normalise;
};

struct ExpertCountsArguments {
  static constexpr const char* kKernel = "expert_counts";
  int64_t* offsets;
  const int32_t* experts;
  int64_t choices;
};

struct ExpertOffsetsArguments {
  static constexpr const char* kKernel = "expert_offsets";
  int64_t* offsets;
  int64_t expert_count;
};

struct ExpertPositionsArguments {
  static constexpr const char* kKernel = "expert_positions";
  int32_t* position;
  int32_t* source;
  const int64_t* offsets;
  const int32_t* experts;
  int64_t choices, top_k;
};

struct GatherRowsArguments {
  static constexpr const char* kKernel = "gather_rows";
  void* out;
  const void* x;
  const int32_t* source;
  int64_t rows, columns;
};

struct GatherRowsBackwardArguments {
  static constexpr const char* kKernel = "gather_rows_backward";
  void* dx;
  const void* dout;
  const int32_t* position;
  int64_t tokens, top_k, columns;
};

struct CombineRowsArguments {
  static constexpr const char* kKernel = "combine_rows";
  void* out;
  const void* x;
  const float* weights;
  const int32_t* position;
  int64_t tokens, top_k, columns;
};

struct CombineRowsBackwardArguments {
  static constexpr const char* kKernel = "combine_rows_backward";
  void* dx;
  float* dweights;
  const void* dout;
  const void* x;
  const float* weights;
  const int32_t* position;
  int64_t top_k, columns;
};

// --- Tensors in 8 bits --------------------------------------------------------------------------

/// A format of 8 bits, as the rounding needs it.
struct Fp8Numbers {
  float largest, smallest_normal;
  float steps;  ///< 1 / the distance of subnormal numbers.
  int32_t fraction_bits;
  int32_t bias_shift;  ///< fp32's bias minus the format's, at the place of the exponent.
};

struct LargestMagnitudeArguments {
  static constexpr const char* kKernel = "largest_magnitude";
  float* partial;
  const void* x;
  int64_t count;
};

struct FinishLargestArguments {
  static constexpr const char* kKernel = "finish_largest";
  float* largest;
  const float* partial;
  int64_t count;
};

struct QuantiseArguments {
  static constexpr const char* kKernel = "quantise";
  uint8_t* out;
  uint8_t* transposed;
  float* scale;
  const void* x;
  const float* largest;
  int64_t rows, columns;
  Fp8Numbers format;
};

// --- Optimizer ----------------------------------------------------------------------------------

struct SquareSumArguments {
  static constexpr const char* kKernel = "square_sum";
  float* partial;
  const void* x;
  int64_t count;
};

/// sum[0] += factor * sum of partial.
struct FinishSquareSumArguments {
  static constexpr const char* kKernel = "finish_square_sum";
  float* sum;
  const float* partial;
  int64_t count;
  float factor;
};

struct GradientFactorArguments {
  static constexpr const char* kKernel = "gradient_factor";
  float* factor;
  const float* square_sum;
  float max_norm, inverse_scale;
};

/// Numbers of one AdamW step, corrections for the zeros that moments begin with included.
struct AdamWNumbers {
  float learning_rate, beta1, beta2, epsilon;
  float kept;  ///< 1 - learning rate * weight decay.
  float first_correction, second_correction;
  const float* gradient_factor;
};

struct AdamWArguments {
  static constexpr const char* kKernel = "adamw";
  void* parameters;
  float* master;
  void* first_moment;
  void* second_moment;
  const void* gradients;
  int64_t count;
  AdamWNumbers numbers;
};

struct AdamW8BitArguments {
  static constexpr const char* kKernel = "adamw_8bit";
  void* parameters;
  float* master;
  uint8_t* first_moment;
  uint8_t* second_moment;
  float* first_scale;
  float* second_scale;
  const float* signed_code;
  const float* unsigned_code;
  const void* gradients;
  int64_t count;
  AdamWNumbers numbers;
};

}  // namespace headroom::cuda
