#include <cmath>

#include "tests/support/backends/cases.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

void rotations(Twin& twin, std::int32_t type) {
  constexpr std::int64_t kTokens = 14;
  constexpr std::int64_t kSequence = 7;
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kHead = 12;
  constexpr std::int64_t kRow = 50;
  twin.begin("rope " + name_of(type));
  const Twins table = twin.output(HEADROOM_FP32, kSequence * 8);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    return t.rope_table(d, 0, at(table), HEADROOM_FP32, kSequence, 8, 10000);
  });
  twin.compare("table", table);
  for (const std::int32_t interleaved : {0, 1}) {
    for (const std::int32_t inverse : {0, 1}) {
      const Twins x = twin.normal(type, kTokens * kRow);
      twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
        return t.rope(d, 0, at(x), kRow, at(table), type, kTokens, kSequence, kHeads, kHead, 8,
                      interleaved, inverse);
      });
      twin.compare("rotated", x);
    }
  }
  twin.end();
}

void softmaxes(Twin& twin, std::int32_t type, std::int64_t queries, std::int64_t keys,
               std::int64_t window) {
  constexpr std::int64_t kMatrices = 3;
  twin.begin("softmax " + name_of(type) + " of " + std::to_string(keys));
  const std::int64_t rows = kMatrices * queries;
  const Twins scores = twin.normal(type, rows * keys, 2);
  const Twins dp = twin.normal(type, rows * keys);
  const Twins p = twin.output(type, rows * keys);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    return t.causal_softmax(d, 0, at(p), at(scores), type, rows, queries, keys, window, 0.3);
  });
  twin.compare("probabilities", p);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const std::int32_t code =
        t.causal_softmax(d, 0, at(scores), at(scores), type, rows, queries, keys, window, 0.3);
    return code != 0 ? code
                     : t.softmax_backward(d, 0, at(dp), at(dp), at(p), type, rows, keys, 0.3);
  });
  twin.compare("in place", scores);
  twin.compare("gradient", dp);
  twin.end();
}

struct Shape {
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t window;
};

void fused(Twin& twin, std::int32_t type, const Shape& s, std::int64_t batch, std::int64_t extra) {
  twin.begin("attention " + name_of(type) + " S " + std::to_string(s.sequence) + " A " +
             std::to_string(s.heads) + " K " + std::to_string(s.kv_heads) + " D " +
             std::to_string(s.head_dim) + " window " + std::to_string(s.window));
  const std::int64_t tokens = batch * s.sequence;
  const std::int64_t q_row = s.heads * s.head_dim + extra;
  const std::int64_t kv_row = s.kv_heads * s.head_dim + 2 * extra;
  const std::int64_t statistics = batch * s.heads * s.sequence;
  const Twins q = twin.normal(type, tokens * q_row);
  const Twins k = twin.normal(type, tokens * kv_row);
  const Twins v = twin.normal(type, tokens * kv_row);
  const Twins dout = twin.normal(type, tokens * q_row);
  const Twins out = twin.output(type, tokens * q_row);
  const Twins log_sum = twin.output(HEADROOM_FP32, statistics);
  const Twins delta = twin.output(HEADROOM_FP32, statistics);
  const Twins dq = twin.output(type, tokens * q_row);
  const Twins dk = twin.output(type, tokens * kv_row);
  const Twins dv = twin.output(type, tokens * kv_row);
  const Twins accumulator = twin.output(HEADROOM_FP32, tokens * s.heads * s.head_dim);
  const auto call = [&](const Twin::At& at) {
    HeadroomAttention a{};
    a.batch = batch;
    a.sequence = s.sequence;
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.head_dim = s.head_dim;
    a.window = s.window;
    a.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
    a.type = type;
    a.q = at(q);
    a.k = at(k);
    a.v = at(v);
    a.q_row = q_row;
    a.k_row = kv_row;
    a.v_row = kv_row;
    a.out = at(out);
    a.out_row = q_row;
    a.log_sum = at(log_sum);
    return a;
  };
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const HeadroomAttention a = call(at);
    return t.attention(d, 0, &a);
  });
  // Probabilities and their gradients are rounded to the element type before they are multiplied.
  const double rounding = type == HEADROOM_FP32 ? 1 : 2;
  twin.compare("out", out, rounding);
  twin.compare("log_sum", log_sum, 5);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    HeadroomAttention a = call(at);
    a.dout = at(dout);
    a.dout_row = q_row;
    a.dq = at(dq);
    a.dk = at(dk);
    a.dv = at(dv);
    a.dq_row = q_row;
    a.dk_row = kv_row;
    a.dv_row = kv_row;
    a.delta = at(delta);
    a.accumulator = at(accumulator);
    return t.attention_backward(d, 0, &a);
  });
  twin.compare("dq", dq, 3 * rounding);
  twin.compare("dk", dk, 3 * rounding);
  twin.compare("dv", dv, 3 * rounding);
  twin.end();
}

void compare_attention_of(Twin& twin, std::int32_t type) {
  rotations(twin, type);
  softmaxes(twin, type, 9, 9, 0);
  softmaxes(twin, type, 5, 300, 0);
  softmaxes(twin, type, 40, 40, 7);
  fused(twin, type, {5, 4, 2, 4, 0}, 2, 0);
  fused(twin, type, {100, 4, 2, 64, 0}, 1, 8);
  fused(twin, type, {70, 2, 1, 128, 0}, 1, 0);
  fused(twin, type, {150, 2, 2, 32, 37}, 1, 0);
  fused(twin, type, {33, 2, 1, 80, 5}, 2, 0);
  fused(twin, type, {40, 1, 1, 200, 0}, 1, 1);
  fused(twin, type, {64, 1, 1, 24, 64}, 1, 0);
}

}  // namespace

void compare_attention_bf16(Twin& twin) {
  compare_attention_of(twin, HEADROOM_BF16);
}

void compare_attention(Twin& twin) {
  for (const std::int32_t type : kTypes) {
    compare_attention_of(twin, type);
  }
  fused(twin, HEADROOM_BF16, {193, 2, 1, 64, 65}, 1, 0);
}

}  // namespace headroom::test
