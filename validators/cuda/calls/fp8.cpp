#include <algorithm>
#include <cmath>

#include "validators/cuda/arguments.h"
#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

constexpr std::int64_t kTile = 32;  // The kernel's tile.

Fp8Numbers numbers_of(std::int32_t format) {
  const int fraction_bits = format == HEADROOM_E5M2 ? 2 : 3;
  const int bias = format == HEADROOM_E5M2 ? 15 : 7;
  return {.largest = format == HEADROOM_E5M2 ? 57344.0F : 448.0F,
          .smallest_normal = std::ldexp(1.0F, 1 - bias),
          .steps = std::ldexp(1.0F, bias - 1 + fraction_bits),
          .fraction_bits = fraction_bits,
          .bias_shift = (127 - bias) << fraction_bits};
}

std::int32_t largest_magnitude(HeadroomDevice* d, HeadroomStream stream, void* largest,
                               std::int32_t stat_type, const void* x, std::int32_t type,
                               std::int64_t count, void* partial) {
  if (stat_type != HEADROOM_FP32) {
    return fail(d, "CUDA has statistics in fp32 alone");
  }
  Grid grid = grid_of_elements(count);
  grid.x = std::min<std::int64_t>(grid.x, HEADROOM_PARTIAL_SUMS);
  auto* const maxima = static_cast<float*>(partial);
  const std::int32_t code =
      launch(d, stream, {type}, grid,
             LargestMagnitudeArguments{.partial = maxima, .x = x, .count = count});
  return code != 0 ? code
                   : launch(d, stream, {}, Grid{.x = 1, .threads = 1024},
                            FinishLargestArguments{.largest = static_cast<float*>(largest),
                                                   .partial = maxima,
                                                   .count = grid.x});
}

std::int32_t quantise(HeadroomDevice* d, HeadroomStream stream, std::uint8_t* out,
                      std::uint8_t* transposed, void* scale, const void* x, std::int32_t type,
                      std::int64_t rows, std::int64_t columns, const void* largest,
                      std::int32_t format) {
  const std::int64_t tiles = ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  return launch(d, stream, {type}, Grid{.x = tiles, .threads = 256},
                QuantiseArguments{.out = out,
                                  .transposed = transposed,
                                  .scale = static_cast<float*>(scale),
                                  .x = x,
                                  .largest = static_cast<const float*>(largest),
                                  .rows = rows,
                                  .columns = columns,
                                  .format = numbers_of(format)});
}

}  // namespace

void add_fp8(HeadroomDeviceTable& table) {
  table.largest_magnitude = largest_magnitude;
  table.quantise = quantise;
}

}  // namespace headroom::cuda
