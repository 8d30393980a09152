#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {

double load(Fp16 value) {
  const bool negative = (value.bits & 0x8000U) != 0;
  const int exponent = (value.bits >> 10) & 0x1f;
  const int fraction = value.bits & 0x3ff;
  double magnitude = 0;
  if (exponent == 0x1f) {
    magnitude = fraction == 0 ? HUGE_VAL : std::nan("");
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(fraction + 1024, exponent - 25);
  }
  return negative ? -magnitude : magnitude;
}

void store(Bf16& to, double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) {
    to.bits = 0x7fc0;
    return;
  }
  // Rounds to nearest even. Rounding through fp32 first differs from one rounding only where fp32
  // itself has rounded to the middle of two bf16 numbers.
  const std::uint32_t odd = (bits >> 16) & 1U;
  to.bits = static_cast<std::uint16_t>((bits + 0x7fffU + odd) >> 16);
}

void store(Fp16& to, double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (std::isnan(value)) {
    to.bits = 0x7e00;
    return;
  }
  constexpr double kOverflow = 65520;  // Halfway between the largest number and 2^16.
  if (magnitude >= kOverflow) {
    to.bits = sign | 0x7c00;
    return;
  }
  constexpr double kSmallestNormal = 6.103515625e-05;  // 2^-14
  if (magnitude < kSmallestNormal) {
    to.bits = static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))));
    return;
  }
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // [0.5, 1)
  // Eleven bits with the leading one; rounding up to 2048 carries into the exponent.
  const auto digits = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));
  to.bits = static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + (digits - 1024)));
}

}  // namespace headroom::exec::cpu
