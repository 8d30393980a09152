// Rotary embedding, softmax of whole rows, and fused attention with one warp for each row: any
// element type, any head size up to 256. Tiles on tensor cores are in attention_tiles.cu.
#include "validators/cuda/kernels/platform.cuh"

namespace headroom::cuda {

HEADROOM_DEVICE void rope_table(const RopeTableArguments& a) {
  const int64_t pairs = a.rotated / 2;
  for (int64_t i = global_thread(); i < a.positions * pairs; i += global_threads()) {
    const int64_t pair = i % pairs;
    const double angle =
        static_cast<double>(i / pairs) *
        pow(a.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(a.rotated));
    a.table[2 * i] = static_cast<float>(cos(angle));
    a.table[2 * i + 1] = static_cast<float>(sin(angle));
  }
}

template <typename T>
HEADROOM_DEVICE void rope(const RopeArguments& a) {
  const int64_t pairs = a.rotated / 2;
  for (int64_t n = global_thread(); n < a.tokens * a.heads * pairs; n += global_threads()) {
    const int64_t i = n % pairs;
    const int64_t head = n / pairs % a.heads;
    const int64_t t = n / pairs / a.heads;
    T* const row = out<T>(a.x) + t * a.x_row + head * a.head_dim;
    T& first = row[a.interleaved != 0 ? 2 * i : i];
    T& second = row[a.interleaved != 0 ? 2 * i + 1 : i + pairs];
    const float* const angle = a.table + t % a.sequence * a.rotated + 2 * i;
    const float cosine = angle[0];
    const float sine = a.inverse != 0 ? -angle[1] : angle[1];
    const float x = load(first);
    const float y = load(second);
    store(first, x * cosine - y * sine);
    store(second, y * cosine + x * sine);
  }
}

/// First key that query `i` sees.
HEADROOM_DEVICE int64_t first_key(int64_t i, int64_t window) {
  return window > 0 ? larger(0, i - window + 1) : 0;
}

template <typename T>
HEADROOM_DEVICE void causal_softmax(const CausalSoftmaxArguments& a) {
  const int64_t r = block_index();
  const T* const scores = in<T>(a.scores) + r * a.keys;
  T* const p = out<T>(a.probabilities) + r * a.keys;
  const int64_t last = r % a.queries + a.keys - a.queries;
  const int64_t begin = first_key(last, a.window);
  float highest = kLowest;
  for (int64_t j = begin + thread_index(); j <= last; j += thread_count()) {
    highest = fmaxf(highest, a.scale * load(scores[j]));
  }
  highest = block_max(highest);
  float sum = 0;
  for (int64_t j = begin + thread_index(); j <= last; j += thread_count()) {
    sum += expf(a.scale * load(scores[j]) - highest);
  }
  sum = block_sum(sum);
  for (int64_t j = thread_index(); j < a.keys; j += thread_count()) {
    const bool seen = j >= begin && j <= last;
    store(p[j], seen ? expf(a.scale * load(scores[j]) - highest) / sum : 0.0F);
  }
}

template <typename T>
HEADROOM_DEVICE void softmax_backward(const SoftmaxBackwardArguments& a) {
  const int64_t r = block_index();
  const T* const p = in<T>(a.probabilities) + r * a.keys;
  const T* const dp = in<T>(a.dprobabilities) + r * a.keys;
  T* const dscores = out<T>(a.dscores) + r * a.keys;
  float sum = 0;
  for (int64_t j = thread_index(); j < a.keys; j += thread_count()) {
    sum += load(p[j]) * load(dp[j]);
  }
  sum = block_sum(sum);
  for (int64_t j = thread_index(); j < a.keys; j += thread_count()) {
    store(dscores[j], a.scale * load(p[j]) * (load(dp[j]) - sum));
  }
}

// --- Fused attention, a warp for each row -------------------------------------------------------

/// Elements of a row that each lane holds, at most.
constexpr int kHeld = 8;

/// A row of up to 256 elements, dealt to the lanes of a warp.
struct WarpRow {
  float x[kHeld];
};

template <typename T>
HEADROOM_DEVICE WarpRow load_row(const T* row, int64_t size) {
  WarpRow held;
  HEADROOM_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const int64_t c = lane() + kWarp * i;
    held.x[i] = c < size ? load(row[c]) : 0.0F;
  }
  return held;
}
template <typename T>
HEADROOM_DEVICE void store_row(T* row, const WarpRow& held, float factor, int64_t size) {
  HEADROOM_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const int64_t c = lane() + kWarp * i;
    if (c < size) {
      store(row[c], factor * held.x[i]);
    }
  }
}
HEADROOM_DEVICE float dot(const WarpRow& a, const WarpRow& b) {
  float sum = 0;
  HEADROOM_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    sum += a.x[i] * b.x[i];
  }
  return warp_sum(sum);
}
HEADROOM_DEVICE void add_row(WarpRow& to, float factor, const WarpRow& from) {
  HEADROOM_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    to.x[i] += factor * from.x[i];
  }
}

/// The row that a warp works on: a position of a head of a sequence of the batch.
struct RowPlace {
  int64_t batch;
  int64_t head;
  int64_t position;
  bool here;
};
HEADROOM_DEVICE RowPlace row_place(const FusedAttention& a) {
  const int64_t position = global_thread() / kWarp;
  return {block_index_z(), block_index_y(), position, position < a.sequence};
}
/// Row of a head, in a tensor of B * S rows.
template <typename T>
HEADROOM_DEVICE const T* row_of(const FusedAttention& a, const void* data, int64_t row_stride,
                                int64_t batch, int64_t position, int64_t head) {
  return in<T>(data) + (batch * a.sequence + position) * row_stride + head * a.head_dim;
}
template <typename T>
HEADROOM_DEVICE T* row_of(const FusedAttention& a, void* data, int64_t row_stride, int64_t batch,
                          int64_t position, int64_t head) {
  return out<T>(data) + (batch * a.sequence + position) * row_stride + head * a.head_dim;
}
HEADROOM_DEVICE int64_t statistic(const FusedAttention& a, int64_t batch, int64_t head,
                                  int64_t position) {
  return (batch * a.heads + head) * a.sequence + position;
}

template <typename T>
HEADROOM_DEVICE void attention_rows(const FusedAttention& a) {
  const RowPlace own = row_place(a);
  if (!own.here) {
    return;
  }
  const int64_t kv = own.head / (a.heads / a.kv_heads);
  const int64_t i = own.position;
  const WarpRow q = load_row(row_of<T>(a, a.q, a.q_row, own.batch, i, own.head), a.head_dim);
  WarpRow sums = {};
  float highest = kLowest;
  float total = 0;
  for (int64_t j = first_key(i, a.window); j <= i; ++j) {
    const WarpRow k = load_row(row_of<T>(a, a.k, a.k_row, own.batch, j, kv), a.head_dim);
    const WarpRow v = load_row(row_of<T>(a, a.v, a.v_row, own.batch, j, kv), a.head_dim);
    const float score = a.scale * dot(q, k);
    const float above = fmaxf(highest, score);
    const float kept = expf(highest - above);
    const float p = expf(score - above);
    HEADROOM_UNROLL
    for (float& sum : sums.x) {
      sum *= kept;
    }
    add_row(sums, p, v);
    total = total * kept + p;
    highest = above;
  }
  store_row(row_of<T>(a, a.out, a.out_row, own.batch, i, own.head), sums, 1.0F / total, a.head_dim);
  if (lane() == 0) {
    a.log_sum[statistic(a, own.batch, own.head, i)] = highest + logf(total);
  }
}

template <typename T>
HEADROOM_DEVICE void attention_delta(const FusedAttention& a) {
  const RowPlace own = row_place(a);
  if (!own.here) {
    return;
  }
  const WarpRow dout =
      load_row(row_of<T>(a, a.dout, a.dout_row, own.batch, own.position, own.head), a.head_dim);
  const WarpRow result = load_row(
      row_of<T>(a, static_cast<const void*>(a.out), a.out_row, own.batch, own.position, own.head),
      a.head_dim);
  const float delta = dot(dout, result);
  if (lane() == 0) {
    a.delta[statistic(a, own.batch, own.head, own.position)] = delta;
  }
}

template <typename T>
HEADROOM_DEVICE void attention_query_gradient_rows(const FusedAttention& a) {
  const RowPlace own = row_place(a);
  if (!own.here) {
    return;
  }
  const int64_t kv = own.head / (a.heads / a.kv_heads);
  const int64_t i = own.position;
  const WarpRow q = load_row(row_of<T>(a, a.q, a.q_row, own.batch, i, own.head), a.head_dim);
  const WarpRow dout =
      load_row(row_of<T>(a, a.dout, a.dout_row, own.batch, i, own.head), a.head_dim);
  const float log_sum = a.log_sum[statistic(a, own.batch, own.head, i)];
  const float delta = a.delta[statistic(a, own.batch, own.head, i)];
  WarpRow dq = {};
  for (int64_t j = first_key(i, a.window); j <= i; ++j) {
    const WarpRow k = load_row(row_of<T>(a, a.k, a.k_row, own.batch, j, kv), a.head_dim);
    const WarpRow v = load_row(row_of<T>(a, a.v, a.v_row, own.batch, j, kv), a.head_dim);
    const float p = expf(a.scale * dot(q, k) - log_sum);
    add_row(dq, a.scale * p * (dot(dout, v) - delta), k);
  }
  store_row(row_of<T>(a, a.dq, a.dq_row, own.batch, i, own.head), dq, 1.0F, a.head_dim);
}

/// One warp for each key of each KV head; it runs over the queries of all heads that read it.
template <typename T>
HEADROOM_DEVICE void attention_key_gradient_rows(const FusedAttention& a) {
  const RowPlace own = row_place(a);
  if (!own.here) {
    return;
  }
  const int64_t group = a.heads / a.kv_heads;
  const int64_t j = own.position;
  const int64_t end = a.window > 0 ? smaller(a.sequence, j + a.window) : a.sequence;
  const WarpRow k = load_row(row_of<T>(a, a.k, a.k_row, own.batch, j, own.head), a.head_dim);
  const WarpRow v = load_row(row_of<T>(a, a.v, a.v_row, own.batch, j, own.head), a.head_dim);
  WarpRow dk = {};
  WarpRow dv = {};
  for (int64_t head = own.head * group; head < (own.head + 1) * group; ++head) {
    for (int64_t i = j; i < end; ++i) {
      const WarpRow q = load_row(row_of<T>(a, a.q, a.q_row, own.batch, i, head), a.head_dim);
      const WarpRow dout =
          load_row(row_of<T>(a, a.dout, a.dout_row, own.batch, i, head), a.head_dim);
      const float p = expf(a.scale * dot(q, k) - a.log_sum[statistic(a, own.batch, head, i)]);
      const float dp = dot(dout, v) - a.delta[statistic(a, own.batch, head, i)];
      add_row(dv, p, dout);
      add_row(dk, a.scale * p * dp, q);
    }
  }
  store_row(row_of<T>(a, a.dk, a.dk_row, own.batch, j, own.head), dk, 1.0F, a.head_dim);
  store_row(row_of<T>(a, a.dv, a.dv_row, own.batch, j, own.head), dv, 1.0F, a.head_dim);
}

}  // namespace headroom::cuda

HEADROOM_KERNEL(rope_table, RopeTableArguments, 256, rope_table)
HEADROOM_KERNEL_TYPES(rope, RopeArguments, 256, rope)
HEADROOM_KERNEL_TYPES(causal_softmax, CausalSoftmaxArguments, 256, causal_softmax)
HEADROOM_KERNEL_TYPES(softmax_backward, SoftmaxBackwardArguments, 256, softmax_backward)
HEADROOM_KERNEL_TYPES(attention_rows, AttentionRowsArguments, 128, attention_rows)
HEADROOM_KERNEL_TYPES(attention_delta, AttentionDeltaArguments, 128, attention_delta)
HEADROOM_KERNEL_TYPES(attention_query_gradient_rows, AttentionQueryGradientRowsArguments, 128,
                      attention_query_gradient_rows)
HEADROOM_KERNEL_TYPES(attention_key_gradient_rows, AttentionKeyGradientRowsArguments, 128,
                      attention_key_gradient_rows)
