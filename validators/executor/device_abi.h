#pragma once

/// The device interface of the executor as a C ABI.
///
/// The executor writes each operator once, over a table of functions. Three backends fill the
/// table: the CPU (cpu/), a recorder that computes nothing (recording_backend.h), and the plugin
/// for CUDA (validators/cuda), which the program loads with dlopen. The plugin exports one
/// function, `headroom_device_backend`, and shares nothing but this header with the program: no
/// exceptions, no types of the C++ library, no memory that the other side frees.
///
/// Rules that hold for every function of the table:
/// - It returns 0, or a code other than 0 with a sentence in `last_error`. After a failure the
///   executor calls nothing but `last_error`, `memory_free`, `host_free` and `close`.
/// - All tensors are row-major. A *row stride* is the distance between rows in elements; the
///   elements of a row are contiguous. Unless a comment says so, tensors are contiguous.
/// - Pointers are device pointers unless they are called `host`. They are aligned to 256 bytes if
///   they are the beginning of a tensor; a shard may begin at any element.
/// - Kernels run asynchronously, in order, on the stream that they are given. They allocate
/// nothing:
///   every temporary is an argument. Kernels run on stream 0 alone; copies and `clear` on any
///   stream.
/// - Collectives are no functions of the table: the executor makes them of copies on one device.
/// - `type` is a `HeadroomType`. Statistics, losses, router weights and scales have the type
///   HEADROOM_FP32, or HEADROOM_FP64 if the tensors have the type HEADROOM_FP64 (CPU tests).
///   In comments this type is called STAT. Sums run in STAT or wider.
/// - Counts are int64_t; a count of 0 is a no-op that succeeds.
/// - "+=" in a comment: the kernel adds to what the output holds. "=": it overwrites.
/// - An output may be the same tensor as an input only where a comment says "in place".
///
/// Shape letters: T rows (tokens) = B * S; B micro-batch, S sequence, H hidden, A heads, K KV
/// heads, D head size, F feed-forward, V vocabulary, E experts, k experts per token.

#include <cstdint>

extern "C" {

/// Changes whenever the table, a structure or the meaning of a function changes.
#define HEADROOM_DEVICE_ABI_VERSION 2

/// Name of the function that a plugin exports (`HeadroomBackendFunction`).
#define HEADROOM_DEVICE_BACKEND_SYMBOL "headroom_device_backend"

/// Rows of partial sums that `norm_backward` and `column_sum` may use in their `partial` argument:
/// [HEADROOM_PARTIAL_ROWS, columns] in STAT, for each output.
#define HEADROOM_PARTIAL_ROWS 256

/// Elements of the `partial` argument of `square_sum` and of `largest_magnitude`, in STAT.
#define HEADROOM_PARTIAL_SUMS 1024

/// Elements that share one scale in 8-bit optimizer states.
#define HEADROOM_STATE_BLOCK 256

/// Element types. The values are those of headroom::ir::DType.
typedef enum HeadroomType {
  HEADROOM_FP32 = 0,
  HEADROOM_BF16 = 1,
  HEADROOM_FP16 = 2,
  HEADROOM_FP64 = 3,
  HEADROOM_FP8 = 4,
  HEADROOM_INT64 = 5,
  HEADROOM_INT32 = 6,
  HEADROOM_INT8 = 7,
  HEADROOM_UINT8 = 8
} HeadroomType;

/// The two kinds of HEADROOM_FP8 (Micikevicius et al. 2022, arXiv:2209.05433): four bits of
/// exponent and three of fraction, up to 448; or five and two, up to 57344.
typedef enum HeadroomFp8 { HEADROOM_E4M3 = 0, HEADROOM_E5M2 = 1 } HeadroomFp8;

/// The arithmetic of matrix products of fp32 operands.
typedef enum HeadroomMath { HEADROOM_MATH_EXACT = 0, HEADROOM_MATH_TF32 = 1 } HeadroomMath;

/// The direction of a copy.
typedef enum HeadroomCopy {
  HEADROOM_DEVICE_TO_DEVICE = 0,
  HEADROOM_HOST_TO_DEVICE = 1,
  HEADROOM_DEVICE_TO_HOST = 2
} HeadroomCopy;

/// Activation functions. The values are those of headroom::ir::Activation.
typedef enum HeadroomActivation {
  HEADROOM_SILU = 0,       ///< x sigmoid(x)
  HEADROOM_GELU = 1,       ///< x Phi(x), with erf.
  HEADROOM_GELU_TANH = 2,  ///< The approximation with tanh (Hendrycks & Gimpel, arXiv:1606.08415).
  HEADROOM_GELU_NEW = 3,   ///< The same function as HEADROOM_GELU_TANH.
  HEADROOM_RELU = 4,
  HEADROOM_GELU_FAST = 5,  ///< The same function as HEADROOM_GELU_TANH.
  HEADROOM_TANH = 6
} HeadroomActivation;

/// Norms over the last dimension.
typedef enum HeadroomNorm {
  HEADROOM_RMS_NORM = 0,   ///< y = x rstd weight, rstd = 1 / sqrt(mean(x^2) + epsilon).
  HEADROOM_LAYER_NORM = 1  ///< y = (x - mean) rstd weight + bias.
} HeadroomNorm;

/// The number of a stream. Stream 0 exists from the beginning and computes; others are made by
/// `stream_create`.
typedef int32_t HeadroomStream;
/// A point in a stream's work (`event_create`).
typedef int32_t HeadroomEvent;

/// Facts that a backend knows about its device.
typedef struct HeadroomDeviceInfo {
  char name[128];       ///< "NVIDIA H100 80GB HBM3", "cpu".
  int64_t total_bytes;  ///< Memory of the device.
  /// Free bytes once the context and the libraries are loaded. A driver may load kernels at their
  /// first start, which takes memory then (CUDA's lazy loading).
  int64_t free_bytes;
  int32_t compute_major;  ///< Compute capability; 0 if there is none.
  int32_t compute_minor;
  int32_t multiprocessors;
  int32_t can_compute;  ///< 0: a stand-in whose kernels do nothing. Losses mean nothing.
  char libraries[256];  ///< "driver 580.65, cuBLASLt 13.1": shown in reports.
} HeadroomDeviceInfo;

/// C = alpha op(A) op(B) + beta C, for each matrix of two nested batches.
///
/// Shapes: op(A) is [m, k], op(B) is [k, n], C is [m, n]; `transpose_x`: X is stored [k, m] or
///         [n, k]. `*_row` are row strides. Matrix (i, j) of X begins at
///         x + (i * x_outer + j * x_inner) elements, 0 <= i < outer, 0 <= j < inner. A stride of 0
///         repeats a matrix of A or B; matrices of C never overlap.
/// Types:  A and B have `type`, C has `output_type` (the same, or HEADROOM_FP32 for gradients that
///         are summed in fp32). Sums run in fp32, or in fp64 for HEADROOM_FP64. With HEADROOM_FP8,
///         `output_type` is another one, A is multiplied by `a_scale` and B by `b_scale`, A is not
///         transposed and B is, k and the row strides are multiples of 16, and outer = inner = 1.
/// Scratch: `workspace` of `workspace_bytes` (HeadroomOpen) may be used for split-K.
typedef struct HeadroomGemm {
  int64_t m, n, k;
  int32_t transpose_a, transpose_b;
  int32_t type, output_type;
  int32_t math;  ///< HeadroomMath; HEADROOM_MATH_TF32 only with HEADROOM_FP32.
  double alpha, beta;
  const void* a;
  const void* b;
  void* c;
  int64_t a_row, b_row, c_row;
  int64_t outer, inner;
  int64_t a_outer, a_inner;
  int64_t b_outer, b_inner;
  int64_t c_outer, c_inner;
  void* workspace;
  // The remaining members are only for HEADROOM_FP8.
  int32_t a_format, b_format;  ///< HeadroomFp8
  const void* a_scale;         ///< [1] STAT of `output_type`, as `quantise` writes it.
  const void* b_scale;
} HeadroomGemm;

/// Fused causal attention over [B, S, heads, D] without the scores in memory.
///
/// Shapes: q, out, dout, dq: B * S rows of A * D elements; k, v, dk, dv: B * S rows of K * D
///         elements; each with its row stride. Head a reads KV head a / (A / K).
///         `log_sum` and `delta`: [B, A, S] STAT. `accumulator`: [B, S, A, D] STAT, a scratch for
///         sums of dq, which the kernel clears itself if it uses it.
/// Model:  p(i, j) = softmax_j(scale q_i k_j) over the keys j <= i, and j > i - window if window is
///         not 0; out_i = sum_j p(i, j) v_j; log_sum_i = log sum_j exp(scale q_i k_j);
///         delta_i = sum_d dout_i out_i.
/// Source: Dao et al. 2022, FlashAttention, arXiv:2205.14135, algorithms 1 and 4.
typedef struct HeadroomAttention {
  int64_t batch, sequence, heads, kv_heads, head_dim;
  int64_t window;
  double scale;
  int32_t type;
  int32_t reserved;
  const void* q;
  const void* k;
  const void* v;
  int64_t q_row, k_row, v_row;
  void* out;  ///< Written by forward, read by backward.
  int64_t out_row;
  void* log_sum;
  // The remaining members are only for backward.
  const void* dout;
  int64_t dout_row;
  void* dq;
  void* dk;
  void* dv;
  int64_t dq_row, dk_row, dv_row;
  void* delta;
  void* accumulator;
} HeadroomAttention;

/// Values of AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2).
typedef struct HeadroomAdamW {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  int64_t step;  ///< Counts from 1.
  /// [1] STAT: gradients are multiplied by it (loss scale, clipping, number of tokens). Where it is
  /// 0, the step is skipped: nothing changes, not even by weight decay.
  const void* gradient_factor;
} HeadroomAdamW;

/// A backend opened on one device.
typedef struct HeadroomDevice HeadroomDevice;

/// The arguments of `open`.
typedef struct HeadroomOpen {
  int32_t ordinal;  ///< Number of the backend's device.
  int32_t reserved;
  int64_t workspace_bytes;  ///< Bytes of the buffer that each GEMM is given.
} HeadroomOpen;

/// The functions of a backend. `d` is what `open` returned.
typedef struct HeadroomDeviceTable {
  int32_t version;      ///< HEADROOM_DEVICE_ABI_VERSION
  int32_t size;         ///< sizeof(HeadroomDeviceTable)
  const char* backend;  ///< "cpu", "cuda", "recording"

  // --- Device --------------------------------------------------------------------------------

  /// Opens a device: makes the context and loads libraries and modules of kernels, so that
  /// `info.free_bytes` is what is left for tensors and for kernels at their first start. On failure
  /// `*device` is NULL and `message`, of `message_size` bytes with a final 0, says in one sentence
  /// what is missing (driver, device, library).
  int32_t (*open)(const HeadroomOpen* how, HeadroomDevice** device, char* message,
                  int64_t message_size);
  void (*close)(HeadroomDevice* d);
  /// The sentence of the last failure; valid until the next call.
  const char* (*last_error)(HeadroomDevice* d);
  int32_t (*info)(HeadroomDevice* d, HeadroomDeviceInfo* info);
  /// Bytes of the device that are free now, and all of them (cudaMemGetInfo).
  int32_t (*memory_info)(HeadroomDevice* d, int64_t* free_bytes, int64_t* total_bytes);

  // --- Memory --------------------------------------------------------------------------------

  /// One segment of device memory (cudaMalloc). Out of memory is no failure: `*memory` is NULL and
  /// the result is 0, so that the caller can release cached segments and try again.
  int32_t (*memory_allocate)(HeadroomDevice* d, int64_t bytes, void** memory);
  /// Waits until the device is done with the segment, then releases it (cudaFree).
  int32_t (*memory_free)(HeadroomDevice* d, void* memory);
  /// Page-locked host memory.
  int32_t (*host_allocate)(HeadroomDevice* d, int64_t bytes, void** host);
  int32_t (*host_free)(HeadroomDevice* d, void* host);

  /// Copies `bytes`; `kind` is a HeadroomCopy. The host side is memory of `host_allocate`.
  int32_t (*copy)(HeadroomDevice* d, HeadroomStream stream, void* to, const void* from,
                  int64_t bytes, int32_t kind);
  /// Copies `rows` rows of `row_bytes`, whose beginnings lie `to_pitch` and `from_pitch` bytes
  /// apart, within the device (cudaMemcpy2DAsync).
  int32_t (*copy_rows)(HeadroomDevice* d, HeadroomStream stream, void* to, int64_t to_pitch,
                       const void* from, int64_t from_pitch, int64_t row_bytes, int64_t rows);
  /// Sets all `bytes` to 0.
  int32_t (*clear)(HeadroomDevice* d, HeadroomStream stream, void* memory, int64_t bytes);

  // --- Streams and events --------------------------------------------------------------------

  int32_t (*stream_create)(HeadroomDevice* d, HeadroomStream* stream);
  /// The host waits until all work of the stream is done.
  int32_t (*stream_synchronize)(HeadroomDevice* d, HeadroomStream stream);
  int32_t (*event_create)(HeadroomDevice* d, HeadroomEvent* event);
  int32_t (*event_destroy)(HeadroomDevice* d, HeadroomEvent event);
  /// The event stands for all work given to `stream` so far.
  int32_t (*event_record)(HeadroomDevice* d, HeadroomEvent event, HeadroomStream stream);
  /// Later work of `stream` waits for the event.
  int32_t (*event_wait)(HeadroomDevice* d, HeadroomEvent event, HeadroomStream stream);
  /// Waits for `end`; seconds between two recorded events.
  int32_t (*event_seconds)(HeadroomDevice* d, HeadroomEvent begin, HeadroomEvent end,
                           double* seconds);

  // --- Matrix products -----------------------------------------------------------------------

  int32_t (*gemm)(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm* gemm);
  /// Products of groups of rows: group g has the rows [host_offsets[g], host_offsets[g + 1]).
  /// The offsets are read before the call returns. A group without rows is skipped; where the rows
  /// are the inner dimension (`rows_inside`), its C is beta C.
  ///
  /// Shapes: rows_inside 0: `gemm` describes group 0 with any m: rows of A and of C are cut into
  ///         groups, group g reads B + g * b_outer. rows_inside 1: rows of A (transposed) and of B
  ///         are the inner dimension k, group g writes C + g * c_outer. outer = inner = 1.
  int32_t (*gemm_grouped)(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm* gemm,
                          const int64_t* host_offsets, int64_t groups, int32_t rows_inside);

  // --- Tensors in 8 bits with one scale ------------------------------------------------------

  /// largest[0] = the largest |x[i]|, STAT of `stat_type`; NaN does not count. `partial`:
  /// [HEADROOM_PARTIAL_SUMS] of it.
  int32_t (*largest_magnitude)(HeadroomDevice* d, HeadroomStream stream, void* largest,
                               int32_t stat_type, const void* x, int32_t type, int64_t count,
                               void* partial);
  /// scale[0] = largest[0] / the largest number of `format` (a HeadroomFp8), or 1 if largest[0] is
  /// 0 or infinite; out[r, c] = x[r, c] / scale[0], to nearest even, at most the format's largest.
  /// `transposed`: the same as [columns, rows]. One of both may be NULL. largest, scale: [1] STAT.
  int32_t (*quantise)(HeadroomDevice* d, HeadroomStream stream, uint8_t* out, uint8_t* transposed,
                      void* scale, const void* x, int32_t type, int64_t rows, int64_t columns,
                      const void* largest, int32_t format);

  // --- Making data ---------------------------------------------------------------------------

  /// out[i] = value, `count` elements.
  int32_t (*fill)(HeadroomDevice* d, HeadroomStream stream, void* out, int32_t type, int64_t count,
                  double value);
  /// A part of a matrix of normal random numbers that depend on nothing but `seed` and the place in
  /// the whole matrix, so that every shard gets its part of the same numbers.
  ///
  /// Model:  for i in [0, count): local = begin + i; g = (local / columns + row_offset) *
  ///         whole_columns + local % columns + column_offset; out[i] = mean + deviation * z(seed,
  ///         g). z is Box-Muller over two uniforms of splitmix64: x1 = mix(seed ^ mix(2 g)), x2 =
  ///         mix(seed ^ mix(2 g + 1)), u = ((x >> 11) + 0.5) / 2^53, z = sqrt(-2 ln u1) cos(2 pi
  ///         u2), mix as in Steele et al. 2014 (splitmix64): x += 0x9e3779b97f4a7c15; x = (x ^ (x
  ///         >> 30)) * 0xbf58476d1ce4e5b9; x = (x ^ (x >> 27)) * 0x94d049bb133111eb; x ^ (x >> 31).
  ///         Computed in fp64, stored once.
  int32_t (*random_normal)(HeadroomDevice* d, HeadroomStream stream, void* out, int32_t type,
                           int64_t begin, int64_t count, int64_t columns, int64_t row_offset,
                           int64_t column_offset, int64_t whole_columns, uint64_t seed, double mean,
                           double deviation);
  /// out[i] = mix(seed ^ mix(begin + i)) % limit, int32.
  int32_t (*random_tokens)(HeadroomDevice* d, HeadroomStream stream, int32_t* out, int64_t begin,
                           int64_t count, int64_t limit, uint64_t seed);

  // --- Elementwise ---------------------------------------------------------------------------

  /// to[i] = from[i], converted; round to nearest even.
  int32_t (*cast)(HeadroomDevice* d, HeadroomStream stream, void* to, int32_t to_type,
                  const void* from, int32_t from_type, int64_t count);
  /// out = a + b; in place with either.
  int32_t (*add)(HeadroomDevice* d, HeadroomStream stream, void* out, const void* a, const void* b,
                 int32_t type, int64_t count);
  /// to += factor * from, with types of their own.
  int32_t (*accumulate)(HeadroomDevice* d, HeadroomStream stream, void* to, int32_t to_type,
                        const void* from, int32_t from_type, int64_t count, double factor);
  /// x *= factor.
  int32_t (*scale)(HeadroomDevice* d, HeadroomStream stream, void* x, int32_t type, int64_t count,
                   double factor);
  /// x[r, c] += bias[c]. `x_row`: row stride.
  int32_t (*add_bias)(HeadroomDevice* d, HeadroomStream stream, void* x, int64_t x_row,
                      const void* bias, int32_t type, int64_t rows, int64_t columns);
  /// sum[c] += sum over r of x[r, c]. `partial`: [HEADROOM_PARTIAL_ROWS, columns] STAT.
  int32_t (*column_sum)(HeadroomDevice* d, HeadroomStream stream, void* sum, int32_t sum_type,
                        const void* x, int64_t x_row, int32_t type, int64_t rows, int64_t columns,
                        void* partial);
  /// out = f(x); `function` is a HeadroomActivation.
  int32_t (*activation)(HeadroomDevice* d, HeadroomStream stream, void* out, const void* x,
                        int32_t type, int64_t count, int32_t function);
  /// dx = dout f'(x); dx in place of dout.
  int32_t (*activation_backward)(HeadroomDevice* d, HeadroomStream stream, void* dx,
                                 const void* dout, const void* x, int32_t type, int64_t count,
                                 int32_t function);
  /// out = f(gate) up. gate and up: `rows` rows of `columns` with the row stride `in_row`.
  int32_t (*gated)(HeadroomDevice* d, HeadroomStream stream, void* out, const void* gate,
                   const void* up, int64_t in_row, int32_t type, int64_t rows, int64_t columns,
                   int32_t function);
  /// dgate = dout up f'(gate); dup = dout f(gate). dgate, dup, gate and up have the row stride
  /// `in_row`; dgate in place of gate and dup in place of up.
  int32_t (*gated_backward)(HeadroomDevice* d, HeadroomStream stream, void* dgate, void* dup,
                            const void* dout, const void* gate, const void* up, int64_t in_row,
                            int32_t type, int64_t rows, int64_t columns, int32_t function);

  // --- Embedding -----------------------------------------------------------------------------

  /// out[t] = table[ids[t] - first], or 0 where ids[t] is not in [first, first + table_rows).
  int32_t (*embedding)(HeadroomDevice* d, HeadroomStream stream, void* out, const void* table,
                       int32_t type, const int32_t* ids, int64_t tokens, int64_t columns,
                       int64_t first, int64_t table_rows);
  /// dtable[ids[t] - first] += dout[t], for the same rows.
  int32_t (*embedding_backward)(HeadroomDevice* d, HeadroomStream stream, void* dtable,
                                int32_t dtable_type, const void* dout, int32_t type,
                                const int32_t* ids, int64_t tokens, int64_t columns, int64_t first,
                                int64_t table_rows);
  /// x[t] += table[t % sequence]; learned positions.
  int32_t (*add_positions)(HeadroomDevice* d, HeadroomStream stream, void* x, const void* table,
                           int32_t type, int64_t tokens, int64_t columns, int64_t sequence);
  /// dtable[s] += sum over the tokens t with t % sequence == s of dout[t].
  int32_t (*add_positions_backward)(HeadroomDevice* d, HeadroomStream stream, void* dtable,
                                    int32_t dtable_type, const void* dout, int32_t type,
                                    int64_t tokens, int64_t columns, int64_t sequence);

  // --- Norms ---------------------------------------------------------------------------------

  /// y = norm(x). `kind` is a HeadroomNorm; `bias` may be NULL. mean and rstd: [rows] STAT; mean is
  /// NULL for RMS norm. `x_row`, `y_row`: row strides. y in place of x.
  int32_t (*norm)(HeadroomDevice* d, HeadroomStream stream, int32_t kind, void* y, int64_t y_row,
                  void* mean, void* rstd, const void* x, int64_t x_row, const void* weight,
                  const void* bias, int32_t type, int64_t rows, int64_t columns, double epsilon);
  /// dx = gradient of x; dweight += ..., dbias += ... (both of `gradient_type`; dbias may be NULL,
  /// dweight is NULL if only dx is wanted). `partial`: [2, HEADROOM_PARTIAL_ROWS, columns] STAT. dx
  /// in place of dy. dx and dy have the row stride `dy_row`.
  int32_t (*norm_backward)(HeadroomDevice* d, HeadroomStream stream, int32_t kind, void* dx,
                           void* dweight, void* dbias, int32_t gradient_type, const void* dy,
                           int64_t dy_row, const void* x, int64_t x_row, const void* weight,
                           const void* mean, const void* rstd, int32_t type, int64_t rows,
                           int64_t columns, void* partial);

  // --- Attention -----------------------------------------------------------------------------

  /// table[s, i] = {cos, sin}(s * theta^(-2 i / rotated)), i < rotated / 2: [positions, rotated /
  /// 2, 2] STAT of `type` (HEADROOM_FP32 or HEADROOM_FP64).
  int32_t (*rope_table)(HeadroomDevice* d, HeadroomStream stream, void* table, int32_t type,
                        int64_t positions, int64_t rotated, double theta);
  /// Rotates the first `rotated` elements of each head, in place: x has T rows of heads *
  /// head_dim elements with the row stride `x_row`; row t has the position t % sequence.
  ///
  /// Model:  pairs (i, i + rotated / 2), or (2 i, 2 i + 1) if `interleaved`:
  ///         (a, b) -> (a cos - b sin, b cos + a sin); `inverse`: by the negative angle (backward).
  /// Source: Su et al. 2021, RoFormer, arXiv:2104.09864, equation 34.
  int32_t (*rope)(HeadroomDevice* d, HeadroomStream stream, void* x, int64_t x_row,
                  const void* table, int32_t type, int64_t tokens, int64_t sequence, int64_t heads,
                  int64_t head_dim, int64_t rotated, int32_t interleaved, int32_t inverse);
  int32_t (*attention)(HeadroomDevice* d, HeadroomStream stream, const HeadroomAttention* a);
  int32_t (*attention_backward)(HeadroomDevice* d, HeadroomStream stream,
                                const HeadroomAttention* a);
  /// Softmax of each row r of [rows, keys] over the keys that query r % queries may see: keys j <=
  /// i + keys - queries (causal), and within `window` if that is not 0; the others become 0. In
  /// place. `scale` multiplies the scores first.
  int32_t (*causal_softmax)(HeadroomDevice* d, HeadroomStream stream, void* probabilities,
                            const void* scores, int32_t type, int64_t rows, int64_t queries,
                            int64_t keys, int64_t window, double scale);
  /// dscores = scale p (dp - sum_j p_j dp_j), row by row; in place of dp.
  int32_t (*softmax_backward)(HeadroomDevice* d, HeadroomStream stream, void* dscores,
                              const void* dprobabilities, const void* probabilities, int32_t type,
                              int64_t rows, int64_t keys, double scale);

  // --- Cross entropy -------------------------------------------------------------------------

  /// Statistics of the rows of a vocabulary shard, logits [rows, columns], whose first column is
  /// token `first`:
  /// row_max = max_j logit_j, row_sum = sum_j exp(logit_j - row_max), row_target = the label's
  /// logit, or 0 if it lies in another shard. All [rows] STAT; labels: int32, negative: no label.
  int32_t (*logit_statistics)(HeadroomDevice* d, HeadroomStream stream, void* row_max,
                              void* row_sum, void* row_target, const void* logits, int32_t type,
                              const int32_t* labels, int64_t rows, int64_t columns, int64_t first);
  /// row_sum *= exp(row_max - whole_max): makes the sums of shards relative to one maximum. STAT.
  int32_t (*rescale_sums)(HeadroomDevice* d, HeadroomStream stream, void* row_sum,
                          const void* row_max, const void* whole_max, int32_t stat_type,
                          int64_t rows);
  /// loss[0] += factor * sum over rows with a label of (log(row_sum) + row_max - row_target). STAT.
  int32_t (*cross_entropy_loss)(HeadroomDevice* d, HeadroomStream stream, void* loss,
                                const void* row_max, const void* row_sum, const void* row_target,
                                int32_t stat_type, const int32_t* labels, int64_t rows,
                                double factor);
  /// dlogits = factor (exp(logit - row_max) / row_sum - [column + first == label]); rows without a
  /// label get 0. In place of the logits.
  int32_t (*cross_entropy_backward)(HeadroomDevice* d, HeadroomStream stream, void* dlogits,
                                    const void* logits, int32_t type, const void* row_max,
                                    const void* row_sum, const int32_t* labels, int64_t rows,
                                    int64_t columns, int64_t first, double factor);

  // --- Mixture of experts --------------------------------------------------------------------

  /// Softmax over the E logits of each token, the k highest, their weights. Ties go to the lower
  /// expert.
  /// probabilities: [T, E] STAT, all of them, for backward; weights: [T, k] STAT, the chosen ones,
  /// divided by their sum if `normalise`; experts: [T, k] int32.
  int32_t (*route)(HeadroomDevice* d, HeadroomStream stream, void* probabilities, void* weights,
                   int32_t* experts, const void* logits, int32_t type, int64_t tokens,
                   int64_t expert_count, int64_t top_k, int32_t normalise);
  /// dlogits [T, E] = gradient, from dweights [T, k] STAT.
  int32_t (*route_backward)(HeadroomDevice* d, HeadroomStream stream, void* dlogits, int32_t type,
                            const void* dweights, const void* probabilities, const int32_t* experts,
                            int64_t tokens, int64_t expert_count, int64_t top_k, int32_t normalise);
  /// Sorts the T * k choices by expert, stable. position[t * k + j]: the sorted row of a choice;
  /// source[row]: the token of a sorted row; offsets: [E + 1] int64, the first row of each expert.
  int32_t (*sort_by_expert)(HeadroomDevice* d, HeadroomStream stream, int32_t* position,
                            int32_t* source, int64_t* offsets, const int32_t* experts,
                            int64_t tokens, int64_t expert_count, int64_t top_k);
  /// out[r] = x[source[r]], `rows` rows of `columns`.
  int32_t (*gather_rows)(HeadroomDevice* d, HeadroomStream stream, void* out, const void* x,
                         const int32_t* source, int32_t type, int64_t rows, int64_t columns);
  /// dx[t] = sum over j < k of dout[position[t k + j]].
  int32_t (*gather_rows_backward)(HeadroomDevice* d, HeadroomStream stream, void* dx,
                                  const void* dout, const int32_t* position, int32_t type,
                                  int64_t tokens, int64_t top_k, int64_t columns);
  /// out[t] = sum over j < k of weights[t, j] x[position[t k + j]].
  int32_t (*combine_rows)(HeadroomDevice* d, HeadroomStream stream, void* out, const void* x,
                          const void* weights, const int32_t* position, int32_t type,
                          int64_t tokens, int64_t top_k, int64_t columns);
  /// dx[position[t k + j]] = weights[t, j] dout[t]; dweights[t, j] = sum_c dout[t, c] x[..., c].
  int32_t (*combine_rows_backward)(HeadroomDevice* d, HeadroomStream stream, void* dx,
                                   void* dweights, const void* dout, const void* x,
                                   const void* weights, const int32_t* position, int32_t type,
                                   int64_t tokens, int64_t top_k, int64_t columns);

  // --- Optimizer -----------------------------------------------------------------------------

  /// sum[0] += factor * sum of x[i]^2, STAT of `stat_type`. `partial`: [HEADROOM_PARTIAL_SUMS] of
  /// it. Infinite and NaN elements make the sum infinite or NaN.
  int32_t (*square_sum)(HeadroomDevice* d, HeadroomStream stream, void* sum, int32_t stat_type,
                        const void* x, int32_t type, int64_t count, double factor, void* partial);
  /// factor[0] = inverse_scale * min(1, max_norm / (sqrt(square_sum[0]) * inverse_scale + 1e-6)),
  /// or inverse_scale if max_norm is 0; 0 if square_sum[0] is not finite.
  int32_t (*gradient_factor)(HeadroomDevice* d, HeadroomStream stream, void* factor,
                             const void* square_sum, int32_t stat_type, double max_norm,
                             double inverse_scale);
  /// One AdamW step of `count` elements. `master` (STAT) may be NULL: then `parameters` are updated
  /// themselves; otherwise the master copy is updated and `parameters` become its rounded value.
  /// `parameters` may be NULL if there is a master (updated elsewhere). moments: `state_type`.
  int32_t (*adamw)(HeadroomDevice* d, HeadroomStream stream, void* parameters,
                   int32_t parameter_type, void* master, void* first_moment, void* second_moment,
                   int32_t state_type, const void* gradients, int32_t gradient_type, int64_t count,
                   const HeadroomAdamW* values);
  /// The same with block-wise 8-bit moments: one uint8 per element, one STAT scale (fp32) per
  /// HEADROOM_STATE_BLOCK elements, the largest magnitude of the block. A moment is scale *
  /// code[byte]; it is stored as the byte whose code is nearest to moment / scale, the lower one if
  /// two are equally near. signed_code and unsigned_code: [256] fp32, ascending.
  /// Source: Dettmers et al. 2022, 8-bit Optimizers, arXiv:2110.02861, section 2.
  int32_t (*adamw_8bit)(HeadroomDevice* d, HeadroomStream stream, void* parameters,
                        int32_t parameter_type, void* master, uint8_t* first_moment,
                        uint8_t* second_moment, float* first_scale, float* second_scale,
                        const float* signed_code, const float* unsigned_code, const void* gradients,
                        int32_t gradient_type, int64_t count, const HeadroomAdamW* values);
} HeadroomDeviceTable;

/// Type of the exported function. Never fails; opening a device may.
typedef const HeadroomDeviceTable* (*HeadroomBackendFunction)(void);

}  // extern "C"
