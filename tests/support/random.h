#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "model_ir/base/check.h"

namespace headroom::test {

/// Whether sanitizers are on. They make searches about twenty times slower, so property tests then
/// draw fewer or smaller ones. Release builds draw all of them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Sanitizers look at every fourth item of a long list, release builds at each.
inline constexpr std::size_t kListStride = kSanitized ? 4 : 1;

/// Random numbers that are the same on every machine. Tests report `seed()` with CAPTURE.
class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed), engine_(seed) {}

  [[nodiscard]] std::uint64_t seed() const { return seed_; }

  /// Uniform in [least, greatest]. std's distributions are not used, because they differ between
  /// libraries.
  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t greatest) {
    HEADROOM_ASSERT(least <= greatest);
    const auto span = static_cast<std::uint64_t>(greatest) - static_cast<std::uint64_t>(least);
    const std::uint64_t drawn = engine_();
    const std::uint64_t offset = span == UINT64_MAX ? drawn : drawn % (span + 1);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(least) + offset);
  }

  /// True with the probability `hits` / `tries`.
  [[nodiscard]] bool chance(std::int64_t hits, std::int64_t tries) {
    return between(1, tries) <= hits;
  }

  template <typename T>
  [[nodiscard]] const T& pick(const std::vector<T>& choices) {
    HEADROOM_ASSERT(!choices.empty());
    return choices[static_cast<std::size_t>(
        between(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

 private:
  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

/// The `number`-th generator of a test. HEADROOM_TEST_SEED selects another series.
[[nodiscard]] inline Random seeded_random(std::uint64_t number = 0) {
  const char* wanted = std::getenv("HEADROOM_TEST_SEED");
  const std::uint64_t base = wanted == nullptr ? 20'260'801 : std::strtoull(wanted, nullptr, 10);
  return Random(base + number);
}

}  // namespace headroom::test
