// Fused attention in tiles, on tensor cores: bf16 and fp16, head sizes up to 128.
// Source: Dao et al. 2022, FlashAttention, arXiv:2205.14135, algorithms 1 and 4; the backward pass
// is two kernels, one for tiles of queries and one for tiles of keys, so that no sum depends on the
// order in which blocks run.
#include "validators/cuda/kernels/platform.cuh"

namespace headroom::cuda {

/// Rows of the tile that a block owns: 16 for each of its four warps.
constexpr int kOwned = 64;
/// Rows of a tile that passes by, in backward.
constexpr int kPassing = 32;
constexpr int kTileThreads = 128;
constexpr int kStep = 16;  ///< Rows, and inner dimension, of one product of matrices.

/// Elements from one row of a tile to the next: 16 bytes more than a row, so that eight rows lie in
/// different banks.
HEADROOM_DEVICE constexpr int tile_row(int head_dim) {
  return head_dim + 8;
}

template <typename T>
HEADROOM_DEVICE uint32_t packed(float low, float high) {
  T first;
  T second;
  store(first, low);
  store(second, high);
  return static_cast<uint32_t>(first.bits) | (static_cast<uint32_t>(second.bits) << 16);
}

/// Copies rows [first, first + kRows) of one head; what lies behind the sequence or the head's size
/// becomes 0.
template <typename T, int kDim, int kRows>
HEADROOM_DEVICE void load_tile(T* tile, const T* head, int64_t row_stride, int64_t first,
                               const FusedAttention& a) {
  constexpr int kVectors = kDim / kEight;
  for (int i = thread_index(); i < kRows * kVectors; i += kTileThreads) {
    const int row = i / kVectors;
    const int column = kEight * (i % kVectors);
    Vector16 value = {0, 0, 0, 0};
    if (first + row < a.sequence && column < a.head_dim) {
      value = *reinterpret_cast<const Vector16*>(head + (first + row) * row_stride + column);
    }
    *reinterpret_cast<Vector16*>(tile + row * tile_row(kDim) + column) = value;
  }
}

/// Rows [row, row + 16) and columns [column, column + 16) of a tile as the left operand.
template <int kDim, typename T>
HEADROOM_DEVICE void left_operand(uint32_t (&to)[4], const T* tile, int row, int column) {
  load_matrices(to, tile + (row + lane() % 16) * tile_row(kDim) + column + 8 * (lane() / 16));
}
/// The transpose of rows [row, row + 16) and columns [column, column + 16) as two right operands:
/// registers 0 and 1 for the first eight rows, 2 and 3 for the others.
template <int kDim, typename T>
HEADROOM_DEVICE void right_transposed(uint32_t (&to)[4], const T* tile, int row, int column) {
  load_matrices(to, tile + (row + lane() % 8 + 8 * (lane() / 16)) * tile_row(kDim) + column +
                        8 * (lane() / 8 % 2));
}
/// Rows [row, row + 16) and columns [column, column + 16) as two right operands: registers 0 and 1
/// for the first eight columns, 2 and 3 for the others.
template <int kDim, typename T>
HEADROOM_DEVICE void right_operand(uint32_t (&to)[4], const T* tile, int row, int column) {
  load_matrices_transposed(
      to, tile + (row + lane() % 16) * tile_row(kDim) + column + 8 * (lane() / 16));
}

/// c [16, 8 kBlocks] = (rows of `left` from `row` on) (rows of `right`)^T.
template <typename T, int kDim, int kBlocks>
HEADROOM_DEVICE void multiply_rows(float (&c)[kBlocks][4], const T* left, int row, const T* right) {
  HEADROOM_UNROLL
  for (int n = 0; n < kBlocks; ++n) {
    HEADROOM_UNROLL
    for (float& value : c[n]) {
      value = 0;
    }
  }
  HEADROOM_UNROLL
  for (int column = 0; column < kDim; column += kStep) {
    uint32_t a[4];
    left_operand<kDim>(a, left, row, column);
    HEADROOM_UNROLL
    for (int n = 0; n < kBlocks; n += 2) {
      uint32_t b[4];
      right_transposed<kDim>(b, right, 8 * n, column);
      multiply_add(T{}, c[n], a, b[0], b[1]);
      multiply_add(T{}, c[n + 1], a, b[2], b[3]);
    }
  }
}

/// sums [16, kDim] += p [16, 8 kBlocks], rounded to T, times the rows of `right`.
template <typename T, int kDim, int kBlocks>
HEADROOM_DEVICE void add_product(float (&sums)[kDim / 8][4], const float (&p)[kBlocks][4],
                                 const T* right) {
  HEADROOM_UNROLL
  for (int n = 0; n < kBlocks; n += 2) {
    const uint32_t a[4] = {packed<T>(p[n][0], p[n][1]), packed<T>(p[n][2], p[n][3]),
                           packed<T>(p[n + 1][0], p[n + 1][1]),
                           packed<T>(p[n + 1][2], p[n + 1][3])};
    HEADROOM_UNROLL
    for (int d = 0; d < kDim; d += kStep) {
      uint32_t b[4];
      right_operand<kDim>(b, right, 8 * n, d);
      multiply_add(T{}, sums[d / 8], a, b[0], b[1]);
      multiply_add(T{}, sums[d / 8 + 1], a, b[2], b[3]);
    }
  }
}

// A thread holds the elements (row, column) of a product [16, 8 n] with row = lane / 4 for the
// values 0 and 1 and 8 more for 2 and 3, column = 8 n + 2 (lane % 4) and one more for 1 and 3.
HEADROOM_DEVICE int held_row(int value) {
  return lane() / 4 + (value >= 2 ? 8 : 0);
}
HEADROOM_DEVICE int held_column(int block, int value) {
  return 8 * block + 2 * (lane() % 4) + value % 2;
}
/// The sum over the four lanes that share a row.
HEADROOM_DEVICE float row_sum(float x) {
  x += from_lane_xor(x, 1);
  return x + from_lane_xor(x, 2);
}
HEADROOM_DEVICE float row_max(float x) {
  x = fmaxf(x, from_lane_xor(x, 1));
  return fmaxf(x, from_lane_xor(x, 2));
}

/// Whether query i sees key j.
HEADROOM_DEVICE bool sees(const FusedAttention& a, int64_t i, int64_t j) {
  return j <= i && i < a.sequence && (a.window == 0 || j > i - a.window);
}

/// Writes the products of a warp, times a factor for each of a thread's two rows.
template <typename T, int kDim>
HEADROOM_DEVICE void store_tile(T* head, int64_t row_stride, int64_t first,
                                const float (&sums)[kDim / 8][4], const float (&factor)[2],
                                const FusedAttention& a) {
  HEADROOM_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + held_row(2 * half);
    if (row >= a.sequence) {
      continue;
    }
    HEADROOM_UNROLL
    for (int n = 0; n < kDim / 8; ++n) {
      const int column = held_column(n, 0);
      if (column < a.head_dim) {
        *reinterpret_cast<uint32_t*>(head + row * row_stride + column) =
            packed<T>(factor[half] * sums[n][2 * half], factor[half] * sums[n][2 * half + 1]);
      }
    }
  }
}

/// First row of a head in a tensor of B * S rows.
template <typename T>
HEADROOM_DEVICE const T* head_of(const FusedAttention& a, const void* data, int64_t row_stride,
                                 int64_t head) {
  return in<T>(data) + block_index_z() * a.sequence * row_stride + head * a.head_dim;
}
template <typename T>
HEADROOM_DEVICE T* head_of(const FusedAttention& a, void* data, int64_t row_stride, int64_t head) {
  return out<T>(data) + block_index_z() * a.sequence * row_stride + head * a.head_dim;
}
HEADROOM_DEVICE int64_t first_statistic(const FusedAttention& a, int64_t head) {
  return (block_index_z() * a.heads + head) * a.sequence;
}
/// First row of the passing tile that holds the first key which query `i` sees.
HEADROOM_DEVICE int64_t first_tile(const FusedAttention& a, int64_t i, int64_t rows) {
  return a.window > 0 ? larger(0, i - a.window + 1) / rows * rows : 0;
}

/// Highest score and sum of exponentials so far, of a thread's two rows.
struct Running {
  float highest[2] = {kLowest, kLowest};
  float total[2] = {0, 0};  ///< This thread's columns alone.
};

/// Scores become probabilities relative to the highest score; what was summed before is scaled.
template <int kDim>
HEADROOM_DEVICE void pass_scores(Running& running, float (&s)[kOwned / 8][4],
                                 float (&sums)[kDim / 8][4]) {
  HEADROOM_UNROLL
  for (int half = 0; half < 2; ++half) {
    float above = running.highest[half];
    HEADROOM_UNROLL
    for (int n = 0; n < kOwned / 8; ++n) {
      above = fmaxf(above, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    }
    above = row_max(above);
    // A row that sees no key so far keeps sums of 0.
    const float reference = above == kLowest ? 0.0F : above;
    const float kept = expf(running.highest[half] - reference);
    running.total[half] *= kept;
    HEADROOM_UNROLL
    for (int n = 0; n < kOwned / 8; ++n) {
      HEADROOM_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[n][i] = expf(s[n][i] - reference);
        running.total[half] += s[n][i];
      }
    }
    HEADROOM_UNROLL
    for (int n = 0; n < kDim / 8; ++n) {
      sums[n][2 * half] *= kept;
      sums[n][2 * half + 1] *= kept;
    }
    running.highest[half] = above;
  }
}

template <typename T, int kDim>
HEADROOM_DEVICE void attention_tiles(const FusedAttention& a) {
  T* const queries = launch_memory<T>();
  T* const keys = queries + kOwned * tile_row(kDim);
  T* const values = keys + kOwned * tile_row(kDim);
  // The last tiles have most keys and begin first.
  const int64_t first = (block_count() - 1 - block_index()) * kOwned;
  const int64_t head = block_index_y();
  const int64_t kv = head / (a.heads / a.kv_heads);
  const int warp_row = kStep * (thread_index() / kWarp);
  load_tile<T, kDim, kOwned>(queries, head_of<T>(a, a.q, a.q_row, head), a.q_row, first, a);
  float sums[kDim / 8][4] = {};
  Running running;
  for (int64_t j = first_tile(a, first, kOwned); j <= first; j += kOwned) {
    meet();
    load_tile<T, kDim, kOwned>(keys, head_of<T>(a, a.k, a.k_row, kv), a.k_row, j, a);
    load_tile<T, kDim, kOwned>(values, head_of<T>(a, a.v, a.v_row, kv), a.v_row, j, a);
    meet();
    float s[kOwned / 8][4];
    multiply_rows<T, kDim, kOwned / 8>(s, queries, warp_row, keys);
    HEADROOM_UNROLL
    for (int n = 0; n < kOwned / 8; ++n) {
      HEADROOM_UNROLL
      for (int i = 0; i < 4; ++i) {
        const bool seen = sees(a, first + warp_row + held_row(i), j + held_column(n, i));
        s[n][i] = seen ? a.scale * s[n][i] : kLowest;
      }
    }
    pass_scores<kDim>(running, s, sums);
    add_product<T, kDim, kOwned / 8>(sums, s, values);
  }
  float factor[2];
  HEADROOM_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float total = row_sum(running.total[half]);
    const int64_t row = first + warp_row + held_row(2 * half);
    factor[half] = 1.0F / total;
    if (lane() % 4 == 0 && row < a.sequence) {
      a.log_sum[first_statistic(a, head) + row] = running.highest[half] + logf(total);
    }
  }
  store_tile<T, kDim>(head_of<T>(a, a.out, a.out_row, head), a.out_row, first + warp_row, sums,
                      factor, a);
}

template <typename T, int kDim>
HEADROOM_DEVICE void attention_query_gradient_tiles(const FusedAttention& a) {
  T* const queries = launch_memory<T>();
  T* const gradients = queries + kOwned * tile_row(kDim);
  T* const keys = gradients + kOwned * tile_row(kDim);
  T* const values = keys + kPassing * tile_row(kDim);
  const int64_t first = (block_count() - 1 - block_index()) * kOwned;
  const int64_t head = block_index_y();
  const int64_t kv = head / (a.heads / a.kv_heads);
  const int warp_row = kStep * (thread_index() / kWarp);
  load_tile<T, kDim, kOwned>(queries, head_of<T>(a, a.q, a.q_row, head), a.q_row, first, a);
  load_tile<T, kDim, kOwned>(gradients, head_of<T>(a, a.dout, a.dout_row, head), a.dout_row, first,
                             a);
  float log_sum[2];
  float delta[2];
  HEADROOM_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + warp_row + held_row(2 * half);
    const bool here = row < a.sequence;
    log_sum[half] = here ? a.log_sum[first_statistic(a, head) + row] : 0.0F;
    delta[half] = here ? a.delta[first_statistic(a, head) + row] : 0.0F;
  }
  float sums[kDim / 8][4] = {};
  const int64_t end = smaller(a.sequence, first + kOwned);
  for (int64_t j = first_tile(a, first, kPassing); j < end; j += kPassing) {
    meet();
    load_tile<T, kDim, kPassing>(keys, head_of<T>(a, a.k, a.k_row, kv), a.k_row, j, a);
    load_tile<T, kDim, kPassing>(values, head_of<T>(a, a.v, a.v_row, kv), a.v_row, j, a);
    meet();
    float s[kPassing / 8][4];
    float dp[kPassing / 8][4];
    multiply_rows<T, kDim, kPassing / 8>(s, queries, warp_row, keys);
    multiply_rows<T, kDim, kPassing / 8>(dp, gradients, warp_row, values);
    HEADROOM_UNROLL
    for (int n = 0; n < kPassing / 8; ++n) {
      HEADROOM_UNROLL
      for (int i = 0; i < 4; ++i) {
        const bool seen = sees(a, first + warp_row + held_row(i), j + held_column(n, i));
        const float p = seen ? expf(a.scale * s[n][i] - log_sum[i / 2]) : 0.0F;
        s[n][i] = p * (dp[n][i] - delta[i / 2]);
      }
    }
    add_product<T, kDim, kPassing / 8>(sums, s, keys);
  }
  const float factor[2] = {a.scale, a.scale};
  store_tile<T, kDim>(head_of<T>(a, a.dq, a.dq_row, head), a.dq_row, first + warp_row, sums, factor,
                      a);
}

/// Statistics of the queries of a passing tile.
HEADROOM_DEVICE void load_statistics(float* to, const float* from, int64_t first,
                                     const FusedAttention& a) {
  if (thread_index() < kPassing) {
    const int64_t row = first + thread_index();
    to[thread_index()] = row < a.sequence ? from[row] : 0.0F;
  }
}

/// The products are transposed: a thread's rows are keys, its columns are queries.
template <typename T, int kDim>
HEADROOM_DEVICE void attention_key_gradient_tiles(const FusedAttention& a) {
  HEADROOM_SHARED float log_sums[kPassing];
  HEADROOM_SHARED float deltas[kPassing];
  T* const keys = launch_memory<T>();
  T* const values = keys + kOwned * tile_row(kDim);
  T* const queries = values + kOwned * tile_row(kDim);
  T* const gradients = queries + kPassing * tile_row(kDim);
  const int64_t first = block_index() * kOwned;
  const int64_t kv = block_index_y();
  const int64_t group = a.heads / a.kv_heads;
  const int warp_row = kStep * (thread_index() / kWarp);
  load_tile<T, kDim, kOwned>(keys, head_of<T>(a, a.k, a.k_row, kv), a.k_row, first, a);
  load_tile<T, kDim, kOwned>(values, head_of<T>(a, a.v, a.v_row, kv), a.v_row, first, a);
  float dk[kDim / 8][4] = {};
  float dv[kDim / 8][4] = {};
  // The last query that sees the last key of the tile.
  const int64_t end =
      a.window > 0 ? smaller(a.sequence, first + kOwned - 1 + a.window) : a.sequence;
  for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
    for (int64_t i = first; i < end; i += kPassing) {
      meet();
      load_tile<T, kDim, kPassing>(queries, head_of<T>(a, a.q, a.q_row, head), a.q_row, i, a);
      load_tile<T, kDim, kPassing>(gradients, head_of<T>(a, a.dout, a.dout_row, head), a.dout_row,
                                   i, a);
      load_statistics(log_sums, a.log_sum + first_statistic(a, head), i, a);
      load_statistics(deltas, a.delta + first_statistic(a, head), i, a);
      meet();
      float p[kPassing / 8][4];
      float ds[kPassing / 8][4];
      multiply_rows<T, kDim, kPassing / 8>(p, keys, warp_row, queries);
      multiply_rows<T, kDim, kPassing / 8>(ds, values, warp_row, gradients);
      HEADROOM_UNROLL
      for (int n = 0; n < kPassing / 8; ++n) {
        HEADROOM_UNROLL
        for (int value = 0; value < 4; ++value) {
          const int query = held_column(n, value);
          const bool seen = sees(a, i + query, first + warp_row + held_row(value));
          p[n][value] = seen ? expf(a.scale * p[n][value] - log_sums[query]) : 0.0F;
          ds[n][value] = p[n][value] * (ds[n][value] - deltas[query]);
        }
      }
      add_product<T, kDim, kPassing / 8>(dv, p, gradients);
      add_product<T, kDim, kPassing / 8>(dk, ds, queries);
    }
  }
  const float scale[2] = {a.scale, a.scale};
  const float one[2] = {1.0F, 1.0F};
  store_tile<T, kDim>(head_of<T>(a, a.dk, a.dk_row, kv), a.dk_row, first + warp_row, dk, scale, a);
  store_tile<T, kDim>(head_of<T>(a, a.dv, a.dv_row, kv), a.dv_row, first + warp_row, dv, one, a);
}

}  // namespace headroom::cuda

#define HEADROOM_TILE_KERNELS(name, Arguments, size)                                      \
  HEADROOM_KERNEL(name##_##size##_bf16, Arguments, 128, name<headroom::cuda::Bf16, size>) \
  HEADROOM_KERNEL(name##_##size##_fp16, Arguments, 128, name<headroom::cuda::Fp16, size>)

HEADROOM_TILE_KERNELS(attention_tiles, AttentionTiles64Arguments, 64)
HEADROOM_TILE_KERNELS(attention_tiles, AttentionTiles128Arguments, 128)
HEADROOM_TILE_KERNELS(attention_query_gradient_tiles, AttentionQueryGradientTiles64Arguments, 64)
HEADROOM_TILE_KERNELS(attention_query_gradient_tiles, AttentionQueryGradientTiles128Arguments, 128)
HEADROOM_TILE_KERNELS(attention_key_gradient_tiles, AttentionKeyGradientTiles64Arguments, 64)
HEADROOM_TILE_KERNELS(attention_key_gradient_tiles, AttentionKeyGradientTiles128Arguments, 128)
