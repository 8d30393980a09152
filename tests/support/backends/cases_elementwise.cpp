#include <array>

#include "tests/support/backends/cases.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

void casts(Twin& twin) {
  for (const std::int32_t to : kTypes) {
    for (const std::int32_t from : kTypes) {
      twin.begin("cast to " + name_of(to) + " from " + name_of(from));
      const Twins x = twin.normal(from, 1003, 3, 1);
      const Twins y = twin.output(to, 1003);
      twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
        return t.cast(d, 0, at(y), to, at(x), from, 1003);
      });
      twin.compare("to", y);
      const Twins sum = twin.normal(to, 1003);
      twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
        return t.accumulate(d, 0, at(sum), to, at(x), from, 1003, 0.37);
      });
      twin.compare("accumulated", sum);
      twin.end();
    }
  }
}

void sums(Twin& twin, std::int32_t type, std::int64_t offset) {
  constexpr std::int64_t kCount = 70001;
  twin.begin("add " + name_of(type));
  const Twins a = twin.normal(type, kCount, 1, offset);
  const Twins b = twin.normal(type, kCount, 2);
  const Twins sum = twin.output(type, kCount, offset);
  const Twins filled = twin.output(type, kCount, offset);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const std::int32_t code = t.add(d, 0, at(sum), at(a), at(b), type, kCount);
    return code != 0 ? code : t.fill(d, 0, at(filled), type, kCount, 0.3);
  });
  twin.compare("sum", sum);
  twin.compare("fill", filled);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const std::int32_t code = t.add(d, 0, at(a), at(a), at(b), type, kCount);
    return code != 0 ? code : t.scale(d, 0, at(b), type, kCount, -1.7);
  });
  twin.compare("in place", a);
  twin.compare("scaled", b);
  twin.end();
}

void activations(Twin& twin, std::int32_t type, std::int32_t function) {
  constexpr std::int64_t kRows = 7;
  constexpr std::int64_t kColumns = 61;
  constexpr std::int64_t kRow = 130;
  twin.begin("activation " + std::to_string(function) + " " + name_of(type));
  const Twins x = twin.normal(type, kRows * kRow, 2);
  const Twins dout = twin.normal(type, kRows * kRow);
  const Twins y = twin.output(type, kRows * kRow);
  const Twins out = twin.output(type, kRows * kColumns);
  const Twins both = twin.normal(type, kRows * kRow, 2);  // gate and up in one row
  const Twins dboth = twin.output(type, kRows * kRow);
  const auto up = [&](void* data) { return static_cast<std::byte*>(data) + kColumns * 2; };
  const auto up_of = [&](void* data) -> void* {
    return type == HEADROOM_FP32 ? static_cast<void*>(up(data) + kColumns * 2)
                                 : static_cast<void*>(up(data));
  };
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    std::int32_t code = t.activation(d, 0, at(y), at(x), type, kRows * kRow, function);
    code += t.activation_backward(d, 0, at(dout), at(dout), at(x), type, kRows * kRow, function);
    code +=
        t.gated(d, 0, at(out), at(both), up_of(at(both)), kRow, type, kRows, kColumns, function);
    code += t.gated_backward(d, 0, at(dboth), up_of(at(dboth)), at(out), at(both), up_of(at(both)),
                             kRow, type, kRows, kColumns, function);
    return code;
  });
  twin.compare("value", y);
  twin.compare("gradient", dout);
  twin.compare("gated", out);
  twin.compare("gradients of gated", dboth, 2);
  twin.end();
}

void random_numbers(Twin& twin, std::int32_t type) {
  twin.begin("random " + name_of(type));
  const Twins x = twin.output(type, 501);
  const Twins ids = twin.integers(std::vector<std::int32_t>(300));
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const std::int32_t code =
        t.random_normal(d, 0, at(x), type, 13, 501, 20, 3, 5, 64, 42, 0.5, 0.02);
    return code != 0
               ? code
               : t.random_tokens(d, 0, static_cast<std::int32_t*>(at(ids)), 7, 300, 128256, 9);
  });
  twin.compare("normal", x);
  twin.compare("tokens", ids);
  twin.end();
}

std::vector<std::int32_t> token_ids(Twin& twin, std::int64_t tokens, std::int64_t limit) {
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < tokens; ++t) {
    ids.push_back(static_cast<std::int32_t>(twin.random().between(0, limit - 1)));
  }
  return ids;
}

void embeddings(Twin& twin, std::int32_t type, std::int32_t gradient, std::int64_t columns) {
  constexpr std::int64_t kTokens = 1300;
  constexpr std::int64_t kRows = 12;
  twin.begin("embedding " + name_of(type) + ", gradients " + name_of(gradient));
  // Ids from 0 to 29, of which the shard has 5 to 16; one of them more than 1024 times.
  std::vector<std::int32_t> numbers = token_ids(twin, kTokens, 30);
  for (std::size_t t = 50; t < 1200; ++t) {
    numbers[t] = 7;
  }
  const Twins ids = twin.integers(numbers);
  const Twins table = twin.normal(type, kRows * columns);
  const Twins out = twin.output(type, kTokens * columns);
  const Twins dout = twin.normal(type, kTokens * columns, 0.1);
  const Twins dtable = twin.normal(gradient, kRows * columns);
  const Twins x = twin.normal(type, kTokens * columns);
  const Twins dpositions = twin.normal(gradient, 13 * columns);
  const Twins positions = twin.normal(type, 13 * columns);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const auto* const i = static_cast<const std::int32_t*>(at(ids));
    std::int32_t code = t.embedding(d, 0, at(out), at(table), type, i, kTokens, columns, 5, kRows);
    code += t.add_positions(d, 0, at(x), at(positions), type, kTokens, columns, 13);
    code += t.add_positions_backward(d, 0, at(dpositions), gradient, at(dout), type, kTokens,
                                     columns, 13);
    return code;
  });
  twin.compare("rows", out);
  twin.compare("with positions", x);
  twin.compare("gradient of positions", dpositions, 5);
  // The reference rounds after each token, so that long sums are compared in fp32 alone.
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const std::int64_t tokens = gradient == HEADROOM_FP32 ? kTokens : 50;
    return t.embedding_backward(d, 0, at(dtable), gradient, at(dout), type,
                                static_cast<const std::int32_t*>(at(ids)), tokens, columns, 5,
                                kRows);
  });
  twin.compare("gradient of the table", dtable, 5);
  twin.end();
}

}  // namespace

void compare_elementwise(Twin& twin) {
  casts(twin);
  for (const std::int32_t type : kTypes) {
    sums(twin, type, 0);
    sums(twin, type, 3);
    random_numbers(twin, type);
    for (std::int32_t function = HEADROOM_SILU; function <= HEADROOM_TANH; ++function) {
      activations(twin, type, function);
    }
    embeddings(twin, type, HEADROOM_FP32, 72);
    embeddings(twin, type, type, 19);
  }
}

}  // namespace headroom::test
