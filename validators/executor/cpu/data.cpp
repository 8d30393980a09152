// Fills, random numbers, embedding and positions.

#include <numbers>

#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {
namespace {

/// splitmix64. Source: Steele, Lea & Flood 2014, Fast splittable pseudorandom number generators.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

double uniform(std::uint64_t seed, std::uint64_t index) {
  constexpr double kSteps = 9007199254740992.0;  // 2^53
  return (static_cast<double>(mix(seed ^ mix(index)) >> 11) + 0.5) / kSteps;
}

double normal(std::uint64_t seed, std::uint64_t index) {
  return std::sqrt(-2 * std::log(uniform(seed, 2 * index))) *
         std::cos(2 * std::numbers::pi * uniform(seed, 2 * index + 1));
}

std::int32_t fill(HeadroomDevice* d, HeadroomStream, void* to, std::int32_t type,
                  std::int64_t count, double value) {
  return typed(d, type, [&](auto* e) {
    for (std::int64_t i = 0; i < count; ++i) {
      store(out<Element<decltype(e)>>(to)[i], value);
    }
  });
}

std::int32_t random_normal(HeadroomDevice* d, HeadroomStream, void* to, std::int32_t type,
                           std::int64_t begin, std::int64_t count, std::int64_t columns,
                           std::int64_t row_offset, std::int64_t column_offset,
                           std::int64_t whole_columns, std::uint64_t seed, double mean,
                           double deviation) {
  return typed(d, type, [&](auto* e) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t local = begin + i;
      const std::int64_t global =
          (local / columns + row_offset) * whole_columns + local % columns + column_offset;
      store(out<Element<decltype(e)>>(to)[i],
            mean + deviation * normal(seed, static_cast<std::uint64_t>(global)));
    }
  });
}

std::int32_t random_tokens(HeadroomDevice*, HeadroomStream, std::int32_t* to, std::int64_t begin,
                           std::int64_t count, std::int64_t limit, std::uint64_t seed) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t number = mix(seed ^ mix(static_cast<std::uint64_t>(begin + i)));
    to[i] = static_cast<std::int32_t>(number % static_cast<std::uint64_t>(limit));
  }
  return 0;
}

std::int32_t embedding(HeadroomDevice* d, HeadroomStream, void* to, const void* table,
                       std::int32_t type, const std::int32_t* ids, std::int64_t tokens,
                       std::int64_t columns, std::int64_t first, std::int64_t table_rows) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t row = ids[t] - first;
      const bool here = row >= 0 && row < table_rows;
      for (std::int64_t c = 0; c < columns; ++c) {
        store(out<T>(to)[t * columns + c], here ? load(in<T>(table)[row * columns + c]) : 0.0);
      }
    }
  });
}

std::int32_t embedding_backward(HeadroomDevice* d, HeadroomStream, void* dtable,
                                std::int32_t dtable_type, const void* dout, std::int32_t type,
                                const std::int32_t* ids, std::int64_t tokens, std::int64_t columns,
                                std::int64_t first, std::int64_t table_rows) {
  return typed(d, dtable_type, type, [&](auto* g, auto* e) {
    auto* const sums = out<Element<decltype(g)>>(dtable);
    const auto* const dy = in<Element<decltype(e)>>(dout);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t row = ids[t] - first;
      for (std::int64_t c = 0; row >= 0 && row < table_rows && c < columns; ++c) {
        auto& sum = sums[row * columns + c];
        store(sum, load(sum) + load(dy[t * columns + c]));
      }
    }
  });
}

std::int32_t add_positions(HeadroomDevice* d, HeadroomStream, void* x, const void* table,
                           std::int32_t type, std::int64_t tokens, std::int64_t columns,
                           std::int64_t sequence) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t i = 0; i < tokens * columns; ++i) {
      T& value = out<T>(x)[i];
      const std::int64_t position = i / columns % sequence;
      store(value, load(value) + load(in<T>(table)[position * columns + i % columns]));
    }
  });
}

std::int32_t add_positions_backward(HeadroomDevice* d, HeadroomStream, void* dtable,
                                    std::int32_t dtable_type, const void* dout, std::int32_t type,
                                    std::int64_t tokens, std::int64_t columns,
                                    std::int64_t sequence) {
  return typed(d, dtable_type, type, [&](auto* g, auto* e) {
    auto* const sums = out<Element<decltype(g)>>(dtable);
    const auto* const dy = in<Element<decltype(e)>>(dout);
    for (std::int64_t i = 0; i < sequence * columns; ++i) {
      double sum = 0;
      for (std::int64_t first = 0; first < tokens; first += sequence) {
        sum += load(dy[first * columns + i]);
      }
      store(sums[i], load(sums[i]) + sum);
    }
  });
}

}  // namespace

void add_data(HeadroomDeviceTable& table) {
  table.fill = fill;
  table.random_normal = random_normal;
  table.random_tokens = random_tokens;
  table.embedding = embedding;
  table.embedding_backward = embedding_backward;
  table.add_positions = add_positions;
  table.add_positions_backward = add_positions_backward;
}

}  // namespace headroom::exec::cpu
