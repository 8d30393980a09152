#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model_ir/base/check.h"

namespace headroom {

/// A number of bytes. Integer, explicit and checked: an overflow is an `InternalError`, because the
/// readers limit every dimension so that no accepted input can cause one.
class Bytes {
 public:
  constexpr Bytes() = default;
  explicit constexpr Bytes(std::int64_t value) : value_(value) {}

  [[nodiscard]] constexpr std::int64_t value() const { return value_; }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend Bytes operator+(Bytes a, Bytes b) {
    std::int64_t sum = 0;
    HEADROOM_ASSERT(!__builtin_add_overflow(a.value_, b.value_, &sum));
    return Bytes{sum};
  }
  friend Bytes operator-(Bytes a, Bytes b) {
    std::int64_t difference = 0;
    HEADROOM_ASSERT(!__builtin_sub_overflow(a.value_, b.value_, &difference));
    return Bytes{difference};
  }
  friend Bytes operator-(Bytes a) { return Bytes{0} - a; }
  friend Bytes operator*(std::int64_t factor, Bytes a) {
    std::int64_t product = 0;
    HEADROOM_ASSERT(!__builtin_mul_overflow(factor, a.value_, &product));
    return Bytes{product};
  }
  friend Bytes operator*(Bytes a, std::int64_t factor) { return factor * a; }
  Bytes& operator+=(Bytes other) { return *this = *this + other; }
  Bytes& operator-=(Bytes other) { return *this = *this - other; }

 private:
  std::int64_t value_ = 0;
};

/// A `double` that carries its dimension; only meaningful products compile.
template <typename Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  explicit constexpr Quantity(double value) : value_(value) {}

  [[nodiscard]] constexpr double value() const { return value_; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity{a.value_ + b.value_};
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{a.value_ - b.value_};
  }
  friend constexpr Quantity operator*(double factor, Quantity a) {
    return Quantity{factor * a.value_};
  }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  Quantity& operator+=(Quantity other) { return *this = *this + other; }

 private:
  double value_ = 0;
};

using Flops = Quantity<struct FlopsTag>;
using Seconds = Quantity<struct SecondsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;

/// Time to move `bytes` at `rate`.
[[nodiscard]] inline Seconds operator/(Bytes bytes, BytesPerSecond rate) {
  return Seconds{static_cast<double>(bytes.value()) / rate.value()};
}
/// Time to compute `work` at `rate`.
[[nodiscard]] constexpr Seconds operator/(Flops work, FlopsPerSecond rate) {
  return Seconds{work.value() / rate.value()};
}

inline constexpr std::int64_t kKiB = std::int64_t{1} << 10;
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// Smallest integer not below numerator / denominator. Requires numerator >= 0, denominator > 0.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
}
/// Smallest multiple of `alignment` not below `value`. Requires value >= 0, alignment > 0.
[[nodiscard]] constexpr std::int64_t align_up(std::int64_t value, std::int64_t alignment) {
  return ceil_div(value, alignment) * alignment;
}

/// Bytes for people: IEC units, three significant digits ("62.4 GiB", "402 MiB"); below 1 KiB
/// exact.
[[nodiscard]] std::string to_text(Bytes bytes);
/// A count for people: thousands separated by commas ("1,235,814,400").
[[nodiscard]] std::string with_commas(std::int64_t count);

/// Reads "80GiB", "80 GB", "512MiB", "1e9", "85899345920"; GiB and GB differ. No unit means bytes.
/// Returns nothing for anything else, for negative values and above 2^60.
[[nodiscard]] std::optional<Bytes> parse_bytes(std::string_view text);

}  // namespace headroom
