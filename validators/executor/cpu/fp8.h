#pragma once

#include <cstdint>

#include "validators/executor/device_abi.h"

namespace headroom::exec::cpu {

/// Numbers in 8 bits: a sign, an exponent and a fraction.
///
/// Source:  Micikevicius et al. 2022, FP8 Formats for Deep Learning, arXiv:2209.05433, table 1.
struct Fp8Format {
  int fraction_bits;
  int bias;
  double largest;
};
/// E4M3 has no infinities: its greatest exponent belongs to numbers, too.
inline constexpr Fp8Format kE4M3{.fraction_bits = 3, .bias = 7, .largest = 448};
inline constexpr Fp8Format kE5M2{.fraction_bits = 2, .bias = 15, .largest = 57344};

/// `format`: a HeadroomFp8.
[[nodiscard]] inline const Fp8Format& fp8_format(std::int32_t format) {
  return format == HEADROOM_E5M2 ? kE5M2 : kE4M3;
}

/// The number that a byte stands for.
[[nodiscard]] double fp8_value(std::uint8_t byte, std::int32_t format);
/// The byte of the nearest number, to nearest even; numbers beyond the largest become the largest.
[[nodiscard]] std::uint8_t fp8_byte(double value, std::int32_t format);

}  // namespace headroom::exec::cpu
