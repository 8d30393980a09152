// Which 4-bit products of bitsandbytes read the packed weight.

#include "model_ir/base/units.h"
#include "runtimes/transformers/quantised.h"

namespace headroom::ir::transformers {
namespace {

/// bitsandbytes 0.50.2 decides by capability, by the number of waves of blocks of 64 outputs, and
/// by whether the weight is deep (many inputs per output).
struct Product {
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t blocks = 0;  ///< Of 64 outputs.
  std::int64_t sms = 0;     ///< Multiprocessors.
  int capability = 0;       ///< 90 for 9.0.

  [[nodiscard]] bool has_hbm() const { return capability == 80 || capability / 10 == 9; }
  [[nodiscard]] bool fills(std::int64_t waves) const { return blocks >= sms * waves; }
};

constexpr std::int64_t kAlways = 4;  ///< Rows up to which every product is fused.
constexpr std::int64_t kFew = 7;     ///< Below 8 rows, a kernel without matrix units is faster.
constexpr std::int64_t kSmallWeight = 4 * 1024 * 1024;  ///< Elements.

std::int64_t small_weight_rows(const Product& p) {
  if (p.in * 2 < p.out) {
    if (p.has_hbm()) {
      const bool few = p.blocks * 3 < p.sms;
      return p.capability == 80 ? (few ? 1536 : 512) : (few ? 512 : 320);
    }
    return !p.fills(1) && p.blocks * p.in > p.sms * 320 ? 192 : 320;
  }
  const bool quarter = p.blocks * 4 <= p.sms;
  if (p.capability == 80 && quarter) {
    return p.in < p.out ? 384 : (p.blocks * 8 <= p.sms ? 32 : 128);
  }
  if (quarter) {
    return p.in < p.out || p.has_hbm() ? 32 : 23;
  }
  return p.blocks * 2 <= p.sms ? 16 : kAlways;
}

std::int64_t a100_rows(const Product& p) {
  if (p.fills(1)) {
    return p.fills(3) ? 128 : (p.in < p.out ? 64 : 32);
  }
  const bool half = p.blocks * 2 < p.sms;
  const bool deep = p.in >= p.out * 3 && p.blocks * 4 > p.sms;
  const bool square = p.in == p.out && p.blocks >= 48 && p.blocks * 5 < p.sms * 3;
  if (deep || square || (half && p.in > p.out && p.blocks * 3 >= p.sms)) {
    return kFew;
  }
  return (half && p.in <= p.out) || (p.blocks >= p.sms / 2 && p.in < p.out) ? 128 : 16;
}

std::int64_t hopper_rows(const Product& p) {
  if (p.fills(1)) {
    return p.fills(3) ? 64 : (p.fills(2) ? 48 : 32);
  }
  const bool deep = p.in >= p.out && p.blocks * 4 < p.sms * 3;
  return p.blocks >= p.sms / 2 && !deep ? 16 : kFew;
}

std::int64_t blackwell_rows(const Product& p) {
  if (p.fills(3)) {
    return 32;
  }
  return p.fills(1) && p.in < p.out ? 8 : kAlways;
}

/// GPUs without HBM, compute capability 8.9, and all that are not listed.
std::int64_t other_rows(const Product& p) {
  const bool deep = p.in > p.out * 2;
  if (p.fills(2)) {
    return p.fills(3) ? 256 : 128;
  }
  if (p.blocks * 5 >= p.sms * 4) {
    if (deep || p.blocks >= 200) {
      return 128;
    }
    return p.in < p.out ? 64 : (p.sms >= 60 ? 128 : 32);
  }
  if (p.blocks >= p.sms / 2) {
    return deep ? 64 : (p.blocks >= 64 ? 8 : 32);
  }
  if (p.in > p.out && p.blocks <= 48) {
    return p.in >= p.out * 3 ? 12 : 10;
  }
  return deep || p.blocks < 48 ? 16 : 8;
}

}  // namespace

std::int64_t fused_rows(std::int64_t out, std::int64_t in, const DeviceTraits& device) {
  const Product p{.out = out,
                  .in = in,
                  .blocks = ceil_div(out, 64),
                  .sms = device.multiprocessors,
                  .capability = device.compute_major * 10 + device.compute_minor};
  if (device.compute_major == 10) {
    return blackwell_rows(p);
  }
  if (out * in < kSmallWeight) {
    return small_weight_rows(p);
  }
  if (device.compute_major == 9) {
    return hopper_rows(p);
  }
  if (p.capability == 80) {
    return a100_rows(p);
  }
  if (p.capability == 86) {
    return p.fills(1) ? 128 : (p.blocks >= p.sms / 2 ? 64 : 16);
  }
  return other_rows(p);
}

}  // namespace headroom::ir::transformers
