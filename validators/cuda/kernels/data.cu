// Fills, random numbers, embedding and positions.
#include "validators/cuda/kernels/platform.cuh"

namespace headroom::cuda {

template <typename T>
HEADROOM_DEVICE void fill_elements(const FillArguments& a) {
  float values[kEight];
  HEADROOM_UNROLL
  for (float& value : values) {
    value = a.value;
  }
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    store_eight(out<T>(a.out) + i, values, a.count - i);
  }
}

/// splitmix64. Source: Steele, Lea & Flood 2014, Fast splittable pseudorandom number generators.
HEADROOM_DEVICE uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

HEADROOM_DEVICE double uniform(uint64_t seed, uint64_t index) {
  constexpr double kSteps = 9007199254740992.0;  // 2^53
  return (static_cast<double>(mix(seed ^ mix(index)) >> 11) + 0.5) / kSteps;
}

template <typename T>
HEADROOM_DEVICE void random_normal(const RandomNormalArguments& a) {
  constexpr double kTwoPi = 6.283185307179586;
  for (int64_t i = global_thread(); i < a.count; i += global_threads()) {
    const int64_t local = a.begin + i;
    const auto global = static_cast<uint64_t>((local / a.columns + a.row_offset) * a.whole_columns +
                                              local % a.columns + a.column_offset);
    const double z = sqrt(-2.0 * log(uniform(a.seed, 2 * global))) *
                     cos(kTwoPi * uniform(a.seed, 2 * global + 1));
    store(out<T>(a.out)[i], static_cast<float>(a.mean + a.deviation * z));
  }
}

HEADROOM_DEVICE void random_tokens(const RandomTokensArguments& a) {
  for (int64_t i = global_thread(); i < a.count; i += global_threads()) {
    const uint64_t number = mix(a.seed ^ mix(static_cast<uint64_t>(a.begin + i)));
    a.out[i] = static_cast<int32_t>(number % static_cast<uint64_t>(a.limit));
  }
}

template <typename T>
HEADROOM_DEVICE void embedding(const EmbeddingArguments& a) {
  const int64_t t = block_index();
  const int64_t row = a.ids[t] - a.first;
  const bool here = row >= 0 && row < a.table_rows;
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    float values[kEight] = {};
    if (here) {
      load_eight(values, in<T>(a.table) + row * a.columns + c, a.columns - c);
    }
    store_eight(out<T>(a.out) + t * a.columns + c, values, a.columns - c);
  }
}

/// The number of tokens of one id that are summed before their sum is rounded into the table.
constexpr int kMatches = 1024;

template <typename G, typename T>
HEADROOM_DEVICE void add_matches(const EmbeddingBackwardArguments& a, int64_t row,
                                 const int32_t* matches, int count) {
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    G* const to = out<G>(a.dtable) + row * a.columns + c;
    float sums[kEight];
    load_eight(sums, to, a.columns - c);
    for (int match = 0; match < count; ++match) {
      float values[kEight];
      load_eight(values, in<T>(a.dout) + matches[match] * a.columns + c, a.columns - c);
      HEADROOM_UNROLL
      for (int i = 0; i < kEight; ++i) {
        sums[i] += values[i];
      }
    }
    store_eight(to, sums, a.columns - c);
  }
}

/// The block of a token sums the gradients of all tokens with its id, in their order, if no token
/// before it has this id. No two blocks write one row, so that nothing depends on their order.
template <typename G, typename T>
HEADROOM_DEVICE void embedding_backward(const EmbeddingBackwardArguments& a) {
  HEADROOM_SHARED int32_t matches[kMatches];
  const int64_t own = block_index();
  const int32_t id = a.ids[own];
  const int64_t row = id - a.first;
  if (row < 0 || row >= a.table_rows) {
    return;
  }
  bool earlier = false;
  for (int64_t t = thread_index(); t < own; t += thread_count()) {
    earlier = earlier || a.ids[t] == id;
  }
  if (block_place(earlier).total > 0) {
    return;
  }
  int found = 0;
  for (int64_t begin = own; begin < a.tokens; begin += thread_count()) {
    const int64_t t = begin + thread_index();
    const bool matches_id = t < a.tokens && a.ids[t] == id;
    const Place place = block_place(matches_id);
    if (found + place.total > kMatches) {
      add_matches<G, T>(a, row, matches, found);
      found = 0;
      meet();
    }
    if (matches_id) {
      matches[found + place.before] = static_cast<int32_t>(t);
    }
    found += place.total;
  }
  meet();
  add_matches<G, T>(a, row, matches, found);
}

template <typename T>
HEADROOM_DEVICE void add_positions(const AddPositionsArguments& a) {
  const int64_t eights = (a.columns + kEight - 1) / kEight;
  for (int64_t i = global_thread(); i < a.tokens * eights; i += global_threads()) {
    const int64_t t = i / eights;
    const int64_t c = kEight * (i % eights);
    T* const to = out<T>(a.x) + t * a.columns + c;
    float x[kEight];
    float position[kEight];
    load_eight(x, to, a.columns - c);
    load_eight(position, in<T>(a.table) + t % a.sequence * a.columns + c, a.columns - c);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      x[j] += position[j];
    }
    store_eight(to, x, a.columns - c);
  }
}

template <typename G, typename T>
HEADROOM_DEVICE void add_positions_backward(const AddPositionsBackwardArguments& a) {
  const int64_t count = a.sequence * a.columns;
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    float sum = 0;
    for (int64_t first = 0; first < a.tokens; first += a.sequence) {
      sum += load(in<T>(a.dout)[first * a.columns + i]);
    }
    G& to = out<G>(a.dtable)[i];
    store(to, load(to) + sum);
  }
}

}  // namespace headroom::cuda

HEADROOM_KERNEL_TYPES(fill_elements, FillArguments, 256, fill_elements)
HEADROOM_KERNEL_TYPES(random_normal, RandomNormalArguments, 256, random_normal)
HEADROOM_KERNEL(random_tokens, RandomTokensArguments, 256, random_tokens)
HEADROOM_KERNEL_TYPES(embedding, EmbeddingArguments, 256, embedding)
HEADROOM_KERNEL_PAIRS(embedding_backward, EmbeddingBackwardArguments, 256, embedding_backward)
HEADROOM_KERNEL_TYPES(add_positions, AddPositionsArguments, 256, add_positions)
HEADROOM_KERNEL_PAIRS(add_positions_backward, AddPositionsBackwardArguments, 256,
                      add_positions_backward)
