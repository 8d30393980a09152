#include <algorithm>
#include <vector>

#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {
namespace {

std::int32_t rope_table(HeadroomDevice*, HeadroomStream, void* table, std::int32_t type,
                        std::int64_t positions, std::int64_t rotated, double theta) {
  const Stat values(table, type);
  for (std::int64_t s = 0; s < positions; ++s) {
    for (std::int64_t i = 0; i < rotated / 2; ++i) {
      const double angle =
          static_cast<double>(s) *
          std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
      values.set(s * rotated + 2 * i, std::cos(angle));
      values.set(s * rotated + 2 * i + 1, std::sin(angle));
    }
  }
  return 0;
}

std::int32_t rope(HeadroomDevice* d, HeadroomStream, void* x, std::int64_t x_row, const void* table,
                  std::int32_t type, std::int64_t tokens, std::int64_t sequence, std::int64_t heads,
                  std::int64_t head_dim, std::int64_t rotated, std::int32_t interleaved,
                  std::int32_t inverse) {
  const Stat angles(table, type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    const std::int64_t pairs = rotated / 2;
    for (std::int64_t head = 0; head < tokens * heads; ++head) {
      const std::int64_t t = head / heads;
      T* const row = out<T>(x) + t * x_row + head % heads * head_dim;
      for (std::int64_t i = 0; i < pairs; ++i) {
        T& first = row[interleaved != 0 ? 2 * i : i];
        T& second = row[interleaved != 0 ? 2 * i + 1 : i + pairs];
        const double a = load(first);
        const double b = load(second);
        const double cosine = angles[t % sequence * rotated + 2 * i];
        const double sine = (inverse != 0 ? -1 : 1) * angles[t % sequence * rotated + 2 * i + 1];
        store(first, a * cosine - b * sine);
        store(second, b * cosine + a * sine);
      }
    }
  });
}

/// First key that query `i` sees.
std::int64_t first_key(std::int64_t i, std::int64_t window) {
  return window > 0 ? std::max<std::int64_t>(0, i - window + 1) : 0;
}

/// One query of one head: rows of q, and of the keys and values of its KV head.
template <typename T>
struct QueryRow {
  const HeadroomAttention& a;
  std::int64_t batch;
  std::int64_t head;
  std::int64_t i;

  [[nodiscard]] std::int64_t token(std::int64_t position) const {
    return batch * a.sequence + position;
  }
  [[nodiscard]] std::int64_t q_column() const { return head * a.head_dim; }
  [[nodiscard]] std::int64_t kv_column() const {
    return head / (a.heads / a.kv_heads) * a.head_dim;
  }
  [[nodiscard]] std::int64_t statistic() const { return (batch * a.heads + head) * a.sequence + i; }
  [[nodiscard]] double score(std::int64_t j) const {
    const T* const q = in<T>(a.q) + token(i) * a.q_row + q_column();
    const T* const k = in<T>(a.k) + token(j) * a.k_row + kv_column();
    double sum = 0;
    for (std::int64_t c = 0; c < a.head_dim; ++c) {
      sum += load(q[c]) * load(k[c]);
    }
    return a.scale * sum;
  }
};

template <typename T, typename Work>
void each_query(const HeadroomAttention& a, const Work& work) {
  for (std::int64_t batch = 0; batch < a.batch; ++batch) {
    for (std::int64_t head = 0; head < a.heads; ++head) {
      for (std::int64_t i = 0; i < a.sequence; ++i) {
        work(QueryRow<T>{.a = a, .batch = batch, .head = head, .i = i});
      }
    }
  }
}

std::int32_t attention(HeadroomDevice* d, HeadroomStream, const HeadroomAttention* call) {
  const HeadroomAttention& a = *call;
  const Stat log_sum(a.log_sum, a.type);
  return typed(d, a.type, [&](auto* e) {
    using T = Element<decltype(e)>;
    std::vector<double> p(at(a.sequence));
    each_query<T>(a, [&](const QueryRow<T>& row) {
      const std::int64_t begin = first_key(row.i, a.window);
      double highest = -HUGE_VAL;
      for (std::int64_t j = begin; j <= row.i; ++j) {
        p[at(j)] = row.score(j);
        highest = std::max(highest, p[at(j)]);
      }
      double sum = 0;
      for (std::int64_t j = begin; j <= row.i; ++j) {
        p[at(j)] = std::exp(p[at(j)] - highest);
        sum += p[at(j)];
      }
      log_sum.set(row.statistic(), highest + std::log(sum));
      T* const to = out<T>(a.out) + row.token(row.i) * a.out_row + row.q_column();
      for (std::int64_t c = 0; c < a.head_dim; ++c) {
        double value = 0;
        for (std::int64_t j = begin; j <= row.i; ++j) {
          value += p[at(j)] * load(in<T>(a.v)[row.token(j) * a.v_row + row.kv_column() + c]);
        }
        store(to[c], value / sum);
      }
    });
  });
}

/// Sums of the three gradients in fp64, written at the end.
struct GradientSums {
  std::vector<double> q, k, v;
};

template <typename T>
void add_query(const QueryRow<T>& row, double log_sum, double delta, GradientSums& sums) {
  const HeadroomAttention& a = row.a;
  const std::int64_t width = a.heads * a.head_dim;
  const std::int64_t kv_width = a.kv_heads * a.head_dim;
  const T* const dout = in<T>(a.dout) + row.token(row.i) * a.dout_row + row.q_column();
  const T* const q = in<T>(a.q) + row.token(row.i) * a.q_row + row.q_column();
  double* const dq = sums.q.data() + row.token(row.i) * width + row.q_column();
  for (std::int64_t j = first_key(row.i, a.window); j <= row.i; ++j) {
    const double p = std::exp(row.score(j) - log_sum);
    const T* const k = in<T>(a.k) + row.token(j) * a.k_row + row.kv_column();
    const T* const v = in<T>(a.v) + row.token(j) * a.v_row + row.kv_column();
    double dp = 0;
    for (std::int64_t c = 0; c < a.head_dim; ++c) {
      dp += load(dout[c]) * load(v[c]);
    }
    const double ds = a.scale * p * (dp - delta);
    const std::int64_t place = row.token(j) * kv_width + row.kv_column();
    for (std::int64_t c = 0; c < a.head_dim; ++c) {
      dq[c] += ds * load(k[c]);
      sums.k[at(place + c)] += ds * load(q[c]);
      sums.v[at(place + c)] += p * load(dout[c]);
    }
  }
}

template <typename T>
void store_rows(void* to, std::int64_t to_row, const std::vector<double>& sums, std::int64_t rows,
                std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      store(out<T>(to)[r * to_row + c], sums[at(r * columns + c)]);
    }
  }
}

std::int32_t attention_backward(HeadroomDevice* d, HeadroomStream, const HeadroomAttention* call) {
  const HeadroomAttention& a = *call;
  const Stat log_sum(a.log_sum, a.type);
  const Stat delta(a.delta, a.type);
  return typed(d, a.type, [&](auto* e) {
    using T = Element<decltype(e)>;
    const std::int64_t tokens = a.batch * a.sequence;
    const std::int64_t width = a.heads * a.head_dim;
    const std::int64_t kv_width = a.kv_heads * a.head_dim;
    GradientSums sums{.q = std::vector<double>(at(tokens * width)),
                      .k = std::vector<double>(at(tokens * kv_width)),
                      .v = std::vector<double>(at(tokens * kv_width))};
    each_query<T>(a, [&](const QueryRow<T>& row) {
      double sum = 0;
      for (std::int64_t c = 0; c < a.head_dim; ++c) {
        const std::int64_t token = row.token(row.i);
        sum += load(in<T>(a.dout)[token * a.dout_row + row.q_column() + c]) *
               load(in<T>(a.out)[token * a.out_row + row.q_column() + c]);
      }
      delta.set(row.statistic(), sum);
      add_query(row, log_sum[row.statistic()], delta[row.statistic()], sums);
    });
    store_rows<T>(a.dq, a.dq_row, sums.q, tokens, width);
    store_rows<T>(a.dk, a.dk_row, sums.k, tokens, kv_width);
    store_rows<T>(a.dv, a.dv_row, sums.v, tokens, kv_width);
  });
}

std::int32_t causal_softmax(HeadroomDevice* d, HeadroomStream, void* probabilities,
                            const void* scores, std::int32_t type, std::int64_t rows,
                            std::int64_t queries, std::int64_t keys, std::int64_t window,
                            double scale) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    std::vector<double> p(at(keys));
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t last = r % queries + keys - queries;
      const std::int64_t begin = first_key(last, window);
      double highest = -HUGE_VAL;
      for (std::int64_t j = begin; j <= last; ++j) {
        p[at(j)] = scale * load(in<T>(scores)[r * keys + j]);
        highest = std::max(highest, p[at(j)]);
      }
      double sum = 0;
      for (std::int64_t j = begin; j <= last; ++j) {
        p[at(j)] = std::exp(p[at(j)] - highest);
        sum += p[at(j)];
      }
      for (std::int64_t j = 0; j < keys; ++j) {
        store(out<T>(probabilities)[r * keys + j], j >= begin && j <= last ? p[at(j)] / sum : 0.0);
      }
    }
  });
}

std::int32_t softmax_backward(HeadroomDevice* d, HeadroomStream, void* dscores,
                              const void* dprobabilities, const void* probabilities,
                              std::int32_t type, std::int64_t rows, std::int64_t keys,
                              double scale) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const p = in<T>(probabilities) + r * keys;
      const T* const dp = in<T>(dprobabilities) + r * keys;
      double sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        sum += load(p[j]) * load(dp[j]);
      }
      for (std::int64_t j = 0; j < keys; ++j) {
        store(out<T>(dscores)[r * keys + j], scale * load(p[j]) * (load(dp[j]) - sum));
      }
    }
  });
}

}  // namespace

void add_attention(HeadroomDeviceTable& table) {
  table.rope_table = rope_table;
  table.rope = rope;
  table.attention = attention;
  table.attention_backward = attention_backward;
  table.causal_softmax = causal_softmax;
  table.softmax_backward = softmax_backward;
}

}  // namespace headroom::exec::cpu
