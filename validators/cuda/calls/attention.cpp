#include <cstdint>

#include "validators/cuda/arguments.h"
#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

std::int32_t rope_table(HeadroomDevice* d, HeadroomStream stream, void* table, std::int32_t type,
                        std::int64_t positions, std::int64_t rotated, double theta) {
  if (type != HEADROOM_FP32) {
    return fail(d, "CUDA has statistics in fp32 alone");
  }
  return launch(d, stream, {}, grid_of_all(positions * (rotated / 2)),
                RopeTableArguments{.table = static_cast<float*>(table),
                                   .positions = positions,
                                   .rotated = rotated,
                                   .theta = theta});
}

std::int32_t rope(HeadroomDevice* d, HeadroomStream stream, void* x, std::int64_t x_row,
                  const void* table, std::int32_t type, std::int64_t tokens, std::int64_t sequence,
                  std::int64_t heads, std::int64_t head_dim, std::int64_t rotated,
                  std::int32_t interleaved, std::int32_t inverse) {
  return launch(d, stream, {type}, grid_of_all(tokens * heads * (rotated / 2)),
                RopeArguments{.x = x,
                              .table = static_cast<const float*>(table),
                              .x_row = x_row,
                              .tokens = tokens,
                              .sequence = sequence,
                              .heads = heads,
                              .head_dim = head_dim,
                              .rotated = rotated,
                              .interleaved = interleaved,
                              .inverse = inverse});
}

std::int32_t causal_softmax(HeadroomDevice* d, HeadroomStream stream, void* probabilities,
                            const void* scores, std::int32_t type, std::int64_t rows,
                            std::int64_t queries, std::int64_t keys, std::int64_t window,
                            double scale) {
  return launch(d, stream, {type}, grid_of_rows(rows, keys),
                CausalSoftmaxArguments{.probabilities = probabilities,
                                       .scores = scores,
                                       .queries = queries,
                                       .keys = keys,
                                       .window = window,
                                       .scale = static_cast<float>(scale)});
}

std::int32_t softmax_backward(HeadroomDevice* d, HeadroomStream stream, void* dscores,
                              const void* dprobabilities, const void* probabilities,
                              std::int32_t type, std::int64_t rows, std::int64_t keys,
                              double scale) {
  return launch(d, stream, {type}, grid_of_rows(rows, keys),
                SoftmaxBackwardArguments{.dscores = dscores,
                                         .dprobabilities = dprobabilities,
                                         .probabilities = probabilities,
                                         .keys = keys,
                                         .scale = static_cast<float>(scale)});
}

// --- Fused attention ----------------------------------------------------------------------------

constexpr std::int64_t kLargestHead = 256;
constexpr std::int64_t kTileRows = 64;     ///< Rows that a block owns.
constexpr std::int64_t kPassingRows = 32;  ///< Rows that pass by, in backward.
constexpr std::int64_t kRowsOfBlock = 4;   ///< One warp for each row.
constexpr int kAttentionThreads = 128;

template <typename Arguments>
Arguments arguments_of(const HeadroomAttention& a) {
  Arguments arguments{};
  arguments.q = a.q;
  arguments.k = a.k;
  arguments.v = a.v;
  arguments.out = a.out;
  arguments.log_sum = static_cast<float*>(a.log_sum);
  arguments.dout = a.dout;
  arguments.dq = a.dq;
  arguments.dk = a.dk;
  arguments.dv = a.dv;
  arguments.delta = static_cast<float*>(a.delta);
  arguments.q_row = a.q_row;
  arguments.k_row = a.k_row;
  arguments.v_row = a.v_row;
  arguments.out_row = a.out_row;
  arguments.dout_row = a.dout_row;
  arguments.dq_row = a.dq_row;
  arguments.dk_row = a.dk_row;
  arguments.dv_row = a.dv_row;
  arguments.batch = a.batch;
  arguments.sequence = a.sequence;
  arguments.heads = a.heads;
  arguments.kv_heads = a.kv_heads;
  arguments.head_dim = a.head_dim;
  arguments.window = a.window;
  arguments.scale = static_cast<float>(a.scale);
  return arguments;
}

/// Starts a kernel with one block for `rows` positions of each of `heads` heads.
template <typename Arguments>
std::int32_t start(HeadroomDevice* d, HeadroomStream stream, const HeadroomAttention& a,
                   std::int64_t rows, std::int64_t heads, std::int64_t shared_rows,
                   std::int64_t head_dim) {
  // Rows of tiles have 8 elements more than the head (kernels/attention_tiles.cu).
  const std::int64_t shared = 2 * shared_rows * (head_dim + 8);
  return launch(d, stream, {a.type},
                Grid{.x = (a.sequence + rows - 1) / rows,
                     .y = heads,
                     .z = a.batch,
                     .threads = kAttentionThreads,
                     .shared_bytes = static_cast<std::size_t>(shared)},
                arguments_of<Arguments>(a));
}

bool is_aligned(const void* data, std::int64_t row) {
  return data == nullptr || (reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && row % 8 == 0);
}

/// Whether tiles of this call can be moved 16 bytes at a time, and fit.
bool fits_tiles(const HeadroomAttention& a) {
  return (a.type == HEADROOM_BF16 || a.type == HEADROOM_FP16) && a.head_dim <= 128 &&
         a.head_dim % 8 == 0 && is_aligned(a.q, a.q_row) && is_aligned(a.k, a.k_row) &&
         is_aligned(a.v, a.v_row) && is_aligned(a.out, a.out_row) &&
         is_aligned(a.dout, a.dout_row) && is_aligned(a.dq, a.dq_row) &&
         is_aligned(a.dk, a.dk_row) && is_aligned(a.dv, a.dv_row);
}

std::int32_t attention(HeadroomDevice* d, HeadroomStream stream, const HeadroomAttention* call) {
  const HeadroomAttention& a = *call;
  if (a.head_dim > kLargestHead) {
    return fail(d, "CUDA has no fused attention for heads of more than 256 elements");
  }
  if (!fits_tiles(a)) {
    return start<AttentionRowsArguments>(d, stream, a, kRowsOfBlock, a.heads, 0, 0);
  }
  return a.head_dim <= 64
             ? start<AttentionTiles64Arguments>(d, stream, a, kTileRows, a.heads, 3 * kTileRows, 64)
             : start<AttentionTiles128Arguments>(d, stream, a, kTileRows, a.heads, 3 * kTileRows,
                                                 128);
}

/// Kernels of the backward pass for one size of tiles.
template <typename QueryGradient, typename KeyGradient>
std::int32_t backward_in_tiles(HeadroomDevice* d, HeadroomStream stream, const HeadroomAttention& a,
                               std::int64_t size) {
  constexpr std::int64_t kShared = 2 * kTileRows + 2 * kPassingRows;
  const std::int32_t code = start<QueryGradient>(d, stream, a, kTileRows, a.heads, kShared, size);
  return code != 0 ? code : start<KeyGradient>(d, stream, a, kTileRows, a.kv_heads, kShared, size);
}

std::int32_t attention_backward(HeadroomDevice* d, HeadroomStream stream,
                                const HeadroomAttention* call) {
  const HeadroomAttention& a = *call;
  if (a.head_dim > kLargestHead) {
    return fail(d, "CUDA has no fused attention for heads of more than 256 elements");
  }
  std::int32_t code = start<AttentionDeltaArguments>(d, stream, a, kRowsOfBlock, a.heads, 0, 0);
  if (code != 0) {
    return code;
  }
  if (fits_tiles(a)) {
    return a.head_dim <= 64
               ? backward_in_tiles<AttentionQueryGradientTiles64Arguments,
                                   AttentionKeyGradientTiles64Arguments>(d, stream, a, 64)
               : backward_in_tiles<AttentionQueryGradientTiles128Arguments,
                                   AttentionKeyGradientTiles128Arguments>(d, stream, a, 128);
  }
  code = start<AttentionQueryGradientRowsArguments>(d, stream, a, kRowsOfBlock, a.heads, 0, 0);
  return code != 0 ? code
                   : start<AttentionKeyGradientRowsArguments>(d, stream, a, kRowsOfBlock,
                                                              a.kv_heads, 0, 0);
}

}  // namespace

void add_attention(HeadroomDeviceTable& table) {
  table.rope_table = rope_table;
  table.rope = rope;
  table.causal_softmax = causal_softmax;
  table.softmax_backward = softmax_backward;
  table.attention = attention;
  table.attention_backward = attention_backward;
}

}  // namespace headroom::cuda
