// Tensors in 8 bits with one scale.
#include "validators/cuda/kernels/platform.cuh"

namespace headroom::cuda {

/// partial[b] = the largest magnitude that block b has seen. NaN does not count.
template <typename T>
HEADROOM_DEVICE void largest_magnitude(const LargestMagnitudeArguments& a) {
  float most = 0;
  for (int64_t i = kEight * global_thread(); i < a.count; i += kEight * global_threads()) {
    float x[kEight];
    load_eight(x, in<T>(a.x) + i, a.count - i);
    HEADROOM_UNROLL
    for (const float value : x) {
      most = fmaxf(most, fabsf(value));
    }
  }
  most = block_max(most);
  if (thread_index() == 0) {
    a.partial[block_index()] = most;
  }
}

HEADROOM_DEVICE void finish_largest(const FinishLargestArguments& a) {
  float most = 0;
  for (int64_t i = thread_index(); i < a.count; i += thread_count()) {
    most = fmaxf(most, a.partial[i]);
  }
  most = block_max(most);
  if (thread_index() == 0) {
    a.largest[0] = most;
  }
}

/// The byte of the nearest number of a format, to nearest even, saturated.
/// Source: Micikevicius et al. 2022, FP8 Formats for Deep Learning, arXiv:2209.05433, table 1.
HEADROOM_DEVICE uint8_t fp8_byte(float value, const Fp8Numbers& format) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 31 << 7;
  if ((bits & 0x7fffffffU) > 0x7f800000U) {  // NaN
    return static_cast<uint8_t>(sign | 0x7fU);
  }
  const float magnitude = fminf(fabsf(value), format.largest);
  if (magnitude < format.smallest_normal) {
    // Subnormal; rounding up to the smallest normal number carries into the exponent.
    return static_cast<uint8_t>(sign | static_cast<uint32_t>(rintf(magnitude * format.steps)));
  }
  memcpy(&bits, &magnitude, sizeof bits);
  const int dropped = 23 - format.fraction_bits;
  bits += (1U << (dropped - 1)) - 1U + (bits >> dropped & 1U);
  // Exponent and fraction together, from fp32's bias to the format's.
  const uint32_t number = (bits >> dropped) - static_cast<uint32_t>(format.bias_shift);
  return static_cast<uint8_t>(sign | number);
}

constexpr int kTile = 32;
constexpr int kTileRow = kTile + 4;

/// One tile of 32 x 32 elements a block of 256 threads; the transpose passes through shared memory.
template <typename T>
HEADROOM_DEVICE void quantise(const QuantiseArguments& a) {
  HEADROOM_SHARED uint8_t tile[kTile * kTileRow];
  const float largest = a.largest[0];
  const bool usable = largest > 0 && largest < INFINITY;
  const float scale = usable ? largest / a.format.largest : 1.0F;
  if (block_index() == 0 && thread_index() == 0) {
    a.scale[0] = scale;
  }
  const int64_t across = (a.columns + kTile - 1) / kTile;
  const int64_t first_row = block_index() / across * kTile;
  const int64_t first_column = block_index() % across * kTile;
  for (int i = thread_index(); i < kTile * kTile; i += thread_count()) {
    const int64_t row = first_row + i / kTile;
    const int64_t column = first_column + i % kTile;
    if (row < a.rows && column < a.columns) {
      const float x = load(in<T>(a.x)[row * a.columns + column]);
      const uint8_t byte = fp8_byte(x / scale, a.format);
      tile[i / kTile * kTileRow + i % kTile] = byte;
      if (a.out != nullptr) {
        a.out[row * a.columns + column] = byte;
      }
    }
  }
  meet();
  if (a.transposed == nullptr) {
    return;
  }
  for (int i = thread_index(); i < kTile * kTile; i += thread_count()) {
    const int64_t row = first_row + i % kTile;
    const int64_t column = first_column + i / kTile;
    if (row < a.rows && column < a.columns) {
      a.transposed[column * a.rows + row] = tile[i % kTile * kTileRow + i / kTile];
    }
  }
}

}  // namespace headroom::cuda

HEADROOM_KERNEL_TYPES(largest_magnitude, LargestMagnitudeArguments, 256, largest_magnitude)
HEADROOM_KERNEL(finish_largest, FinishLargestArguments, 1024, finish_largest)
HEADROOM_KERNEL_TYPES(quantise, QuantiseArguments, 256, quantise)
