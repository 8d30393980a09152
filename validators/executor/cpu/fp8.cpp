#include "validators/executor/cpu/fp8.h"

#include <algorithm>
#include <cmath>

#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {
namespace {

std::int32_t largest_magnitude(HeadroomDevice* d, HeadroomStream, void* largest,
                               std::int32_t stat_type, const void* x, std::int32_t type,
                               std::int64_t count, void*) {
  const Stat result(largest, stat_type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    double most = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double magnitude = std::abs(load(in<T>(x)[i]));
      most = magnitude > most ? magnitude : most;  // NaN does not count.
    }
    result.set(0, most);
  });
}

/// The scale of a tensor: its largest magnitude becomes the format's.
double scale_of(double largest, const Fp8Format& format, bool wide) {
  if (!(largest > 0) || std::isinf(largest)) {
    return 1;
  }
  const double scale = largest / format.largest;
  return wide ? scale : static_cast<double>(static_cast<float>(scale));
}

std::int32_t quantise(HeadroomDevice* d, HeadroomStream, std::uint8_t* out,
                      std::uint8_t* transposed, void* scale, const void* x, std::int32_t type,
                      std::int64_t rows, std::int64_t columns, const void* largest,
                      std::int32_t format) {
  const bool wide = type == HEADROOM_FP64;
  const std::int32_t stat = wide ? HEADROOM_FP64 : HEADROOM_FP32;
  const double divisor = scale_of(Stat(largest, stat)[0], fp8_format(format), wide);
  Stat(scale, stat).set(0, divisor);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        const double value = load(in<T>(x)[row * columns + column]);
        // The quotient is in fp32 as on a GPU, so that both give the same bytes.
        const double quotient =
            wide ? value / divisor
                 : static_cast<double>(static_cast<float>(value) / static_cast<float>(divisor));
        const std::uint8_t byte = fp8_byte(quotient, format);
        if (out != nullptr) {
          out[row * columns + column] = byte;
        }
        if (transposed != nullptr) {
          transposed[column * rows + row] = byte;
        }
      }
    }
  });
}

}  // namespace

double fp8_value(std::uint8_t byte, std::int32_t format) {
  const Fp8Format& f = fp8_format(format);
  const int exponent = (byte & 0x7f) >> f.fraction_bits;
  const int fraction = byte & ((1 << f.fraction_bits) - 1);
  const double sign = (byte & 0x80) != 0 ? -1 : 1;
  if (format == HEADROOM_E5M2 && exponent == 0x1f) {
    return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  }
  if (format != HEADROOM_E5M2 && (byte & 0x7f) == 0x7f) {
    return std::nan("");
  }
  if (exponent == 0) {
    return sign * std::ldexp(fraction, 1 - f.bias - f.fraction_bits);
  }
  return sign * std::ldexp(fraction + (1 << f.fraction_bits), exponent - f.bias - f.fraction_bits);
}

std::uint8_t fp8_byte(double value, std::int32_t format) {
  const Fp8Format& f = fp8_format(format);
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) {
    return static_cast<std::uint8_t>(sign | 0x7f);
  }
  const double magnitude = std::min(std::abs(value), f.largest);
  if (magnitude < std::ldexp(1, 1 - f.bias)) {
    // Subnormal; rounding up to the smallest normal number carries into the exponent.
    const double steps = std::nearbyint(std::ldexp(magnitude, f.bias - 1 + f.fraction_bits));
    return static_cast<std::uint8_t>(sign | static_cast<int>(steps));
  }
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // [0.5, 1)
  const auto digits = static_cast<int>(std::nearbyint(std::ldexp(fraction, f.fraction_bits + 1)));
  const int bits = ((exponent - 1 + f.bias) << f.fraction_bits) + digits - (1 << f.fraction_bits);
  return static_cast<std::uint8_t>(sign | bits);
}

void add_fp8(HeadroomDeviceTable& table) {
  table.largest_magnitude = largest_magnitude;
  table.quantise = quantise;
}

}  // namespace headroom::exec::cpu
