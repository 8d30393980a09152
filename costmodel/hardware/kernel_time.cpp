#include "costmodel/hardware/kernel_time.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "model_ir/base/check.h"

namespace headroom::cost {
namespace {

/// A thread block's share of C, as powers of two.
struct Tile {
  int m_bits;
  int n_bits;
};
// Tile shapes of cuBLAS and CUTLASS on tensor cores. The larger the tile, the less often operands
// are read.
constexpr std::array<Tile, 6> kTiles = {{{8, 7}, {7, 8}, {7, 7}, {7, 6}, {6, 7}, {6, 6}}};
// Without tensor cores there are also narrow tiles, as adapters need them.
constexpr std::array<Tile, 2> kNarrowTiles = {{{7, 5}, {5, 7}}};

constexpr std::int64_t kLeastSplit = 256;  ///< Least part of k in a split product.

std::int64_t blocks(std::int64_t extent, int bits) {
  return (extent + (std::int64_t{1} << bits) - 1) >> bits;
}

/// Full waves plus the cost of a partly filled last wave: between tiles/width and its ceiling.
double waves_of(double units, double wave_loss) {
  const double whole = static_cast<double>(static_cast<std::int64_t>(units));
  const double ceiling = units > whole ? whole + 1 : whole;
  return units <= 1 ? 1 : units + wave_loss * (ceiling - units);
}

FlopsPerSecond rate_of(const GemmPerformance& gemm, ir::DType dtype) {
  switch (ir::bits_of(dtype)) {
    case 8:
      return gemm.fp8;
    case 16:
      return gemm.half;
    default:
      return gemm.fp32;
  }
}

/// What the tile shapes of one product have in common.
struct TileWork {
  double multiprocessors;
  double element;  ///< Seconds for one element of k of one element of C, on one multiprocessor.
  double loss;
  double stage;  ///< Share of `k_overhead`, proportional to the elements of k loaded at once.
};

/// Elements of k that a kernel loads at once: without tensor cores over with tensor cores.
/// Source: NVIDIA/cutlass include/cutlass/gemm/device/default_gemm_configuration.h,
/// ThreadblockShape
///         of OpClassSimt and of OpClassTensorOp on Sm80.
constexpr double kPlainStage = 8.0 / 64;

/// Time on the multiprocessors with tiles of one shape.
double compute_seconds(const TileWork& work, const GemmPerformance& gemm,
                       const ir::GemmShape& shape, Tile tile) {
  const std::int64_t tiles =
      blocks(shape.m, tile.m_bits) * blocks(shape.n, tile.n_bits) * shape.count;
  const double height = static_cast<double>(1 << tile.m_bits);
  const double width = static_cast<double>(1 << tile.n_bits);
  // (1 + loss (1/height + 1/width)) elements, without the divisions.
  const double step = (height * width + work.loss * (height + width)) * work.element;
  const double k = static_cast<double>(shape.k);
  const double overhead = gemm.k_overhead * work.stage;
  const double units = static_cast<double>(tiles) / work.multiprocessors;
  // The next product uses the multiprocessors that this one leaves idle.
  if (shape.batch == ir::GemmBatch::kSeries) {
    return units * (k + overhead) * step;
  }
  const double whole = waves_of(units, gemm.wave_loss) * (k + overhead) * step;
  if (units * 2 > 1 || shape.k < 2 * kLeastSplit) {
    return whole;
  }
  const std::int64_t idle = static_cast<std::int64_t>(work.multiprocessors) / tiles;
  const double parts = static_cast<double>(std::min(idle, shape.k / kLeastSplit));
  return std::min(whole, (k / parts + 2 * overhead) * step);
}

/// Bytes that a product reads and writes (with accumulation it also reads its result).
struct Moved {
  double operands;
  double result;
};
Moved bytes_moved(const ir::GemmShape& shape) {
  const double m = static_cast<double>(shape.m);
  const double n = static_cast<double>(shape.n);
  const double k = static_cast<double>(shape.k);
  const double operand = static_cast<double>(ir::bits_of(shape.dtype)) / 8;
  // 8-bit operands have 16-bit results; accumulation reads and writes fp32.
  const double result = shape.accumulate ? 8 : std::max(operand, 2.0);
  const double count = static_cast<double>(shape.count);
  return {.operands = count * (m * k + k * n) * operand, .result = count * m * n * result};
}

double layout_factor(const GemmPerformance& gemm, ir::GemmLayout layout) {
  switch (layout) {
    case ir::GemmLayout::kTN:
      return 1;
    case ir::GemmLayout::kNN:
      return gemm.input_gradient;
    case ir::GemmLayout::kNT:
      return gemm.weight_gradient;
  }
  return 1;
}

/// Kernels load less at once if rows of an operand or of the result are not a multiple of 16 bytes.
double row_factor(const GemmPerformance& gemm, const ir::GemmShape& shape) {
  // The contiguous extents in memory, of both operands and of the result.
  const std::int64_t first = shape.layout == ir::GemmLayout::kNT ? shape.m : shape.k;
  const std::int64_t second = shape.layout == ir::GemmLayout::kTN ? shape.k : shape.n;
  const std::int64_t rows = first | second | shape.n;  // Low bits: set if any extent has them.
  const std::int64_t even = 128 / ir::bits_of(shape.dtype);
  if (rows % even == 0 || ir::bits_of(shape.dtype) == 32) {  // No tensor cores: not measured.
    return 1;
  }
  return 1 / (rows % 2 == 0 ? gemm.uneven_rows : gemm.odd_rows);
}

/// The longer of two overlapping times, plus the exposed share of the shorter.
double overlapped(double a, double b, double loss) {
  return std::max(a, b) + loss * std::min(a, b);
}

constexpr std::int64_t kBlock = 128;  ///< Queries, or keys, per thread block.

/// Pairs under a causal mask that aligns the last query with the last key.
double seen_by_causal(double queries, double keys) {
  const double beyond = std::max(queries - keys, 0.0);  // Queries that see no key at all.
  const double rows = queries - beyond;
  return rows * keys - rows * (rows - 1) / 2;
}

FlopsPerSecond attention_rate(const AttentionPerformance& attention,
                              const ir::AttentionShape& shape) {
  const AttentionRates& rates = shape.kernel == ir::AttentionKernel::kNative ? attention.native
                                : shape.kernel == ir::AttentionKernel::kFlash2
                                    ? attention.flash2
                                    : attention.efficient;
  const double narrow = (shape.backward ? rates.backward_64 : rates.forward_64).value();
  const double full = (shape.backward ? rates.backward_128 : rates.forward_128).value();
  const double size = static_cast<double>(std::max(shape.head_dim, shape.value_dim));
  if (size > 128) {
    return shape.backward ? rates.backward_wide : rates.forward_wide;
  }
  const double along = std::clamp((size - 64) / 64, 0.0, 1.0);
  return FlopsPerSecond{narrow + along * (full - narrow)};
}

/// Bytes of queries, keys, values and output; in backward also of their gradients, where that of
/// the queries counts twice in fp32.
double attention_bytes(const ir::AttentionShape& shape) {
  const double rows = static_cast<double>(shape.batch * shape.heads * shape.queries);
  const double kv_rows = static_cast<double>(shape.batch * shape.kv_heads * shape.keys);
  const double both = static_cast<double>(shape.head_dim + shape.value_dim);
  const double element = static_cast<double>(ir::bits_of(shape.dtype)) / 8;
  const double forward = element * both * (rows + kv_rows);
  return shape.backward ? 2 * forward + 8 * rows * static_cast<double>(shape.head_dim) : forward;
}

/// A kind of kernel that is not elementwise: its rate, and the time per element in addition to the
/// bytes.
struct KindOfTraffic {
  BytesPerSecond rate;
  double element = 0;  ///< Seconds.
};
KindOfTraffic kind_of(const MemoryPerformance& memory, ir::TrafficKind kind) {
  switch (kind) {
    case ir::TrafficKind::kElementwise:
    case ir::TrafficKind::kOneByOne:
      break;
    case ir::TrafficKind::kPermutation:
      return {.rate = memory.permutation};
    case ir::TrafficKind::kCrossEntropy:
      return {.rate = memory.cross_entropy};
    case ir::TrafficKind::kList:
      return {.rate = memory.rate, .element = memory.list_element};
    case ir::TrafficKind::kFusedStep:
      return {.rate = memory.rate, .element = memory.fused_step_element};
    case ir::TrafficKind::kQuantisedStep:
      return {.rate = memory.rate, .element = memory.quantised_step_element};
  }
  return {.rate = memory.rate};
}

}  // namespace

Seconds gemm_time(const DevicePerformance& device, const ir::GemmShape& shape) {
  HEADROOM_ASSERT(shape.m > 0 && shape.n > 0 && shape.k > 0 && shape.count > 0);
  const GemmPerformance& gemm = device.gemm;
  const double largest = 1 + gemm.tile_loss * (1.0 / 256 + 1.0 / 128);
  const TileWork work{
      .multiprocessors = static_cast<double>(device.multiprocessors),
      .element = 2.0 * device.multiprocessors / (rate_of(gemm, shape.dtype).value() * largest),
      .loss = gemm.tile_loss,
      .stage = ir::bits_of(shape.dtype) == 32 ? kPlainStage : 1};
  double compute = compute_seconds(work, gemm, shape, kTiles[0]);
  for (std::size_t i = 1; i < kTiles.size(); ++i) {
    compute = std::min(compute, compute_seconds(work, gemm, shape, kTiles[i]));
  }
  if (ir::bits_of(shape.dtype) == 32) {
    for (const Tile tile : kNarrowTiles) {
      compute = std::min(compute, compute_seconds(work, gemm, shape, tile));
    }
  }
  compute *= layout_factor(gemm, shape.layout) * row_factor(gemm, shape) *
             (shape.micro_scaled ? gemm.micro_scaled : 1);
  const Moved moved = bytes_moved(shape);
  const double operands = moved.operands / device.memory.rate.value();
  const double result = moved.result / device.memory.rate.value();
  if (shape.batch != ir::GemmBatch::kSeries) {
    return gemm.floor + Seconds{overlapped(compute, operands + result, gemm.overlap_loss)};
  }
  compute *= gemm.series;
  // A result that is accumulated is read at the end of a product, when no computation can hide it.
  const double shown = shape.accumulate ? gemm.accumulate_loss * result : 0;
  const double hidden = shape.accumulate ? operands : operands + result;
  return gemm.floor + Seconds{overlapped(compute, hidden, gemm.overlap_loss) + shown};
}

double visible_pairs(const ir::AttentionShape& shape) {
  const double queries = static_cast<double>(shape.queries);
  const double keys = static_cast<double>(shape.keys);
  const double window = static_cast<double>(shape.window);
  if (shape.causal) {
    const double all = seen_by_causal(queries, keys);
    return shape.window > 0 && window < keys ? all - seen_by_causal(queries, keys - window) : all;
  }
  return shape.window > 0 ? queries * std::min(keys, window) : queries * keys;
}

Seconds attention_time(const DevicePerformance& device, const ir::AttentionShape& shape) {
  HEADROOM_ASSERT(shape.batch > 0 && shape.heads > 0 && shape.queries > 0 && shape.keys > 0);
  HEADROOM_ASSERT(shape.head_dim > 0 && shape.value_dim > 0);
  const AttentionPerformance& attention = device.attention;
  const std::int64_t held = shape.backward ? shape.keys : shape.queries;
  const std::int64_t rows = ceil_div(held, kBlock);
  const double units = static_cast<double>(shape.batch * shape.heads * rows);
  // The keys that a block skips on average; the diagonal cuts half a block more.
  const double cut = shape.causal ? static_cast<double>(kBlock) / 2 : 0;
  const double passed = visible_pairs(shape) / static_cast<double>(held) + cut;
  const double widths = shape.backward ? 3.0 * static_cast<double>(shape.head_dim) +
                                             2.0 * static_cast<double>(shape.value_dim)
                                       : static_cast<double>(shape.head_dim + shape.value_dim);
  const double step = 2 * static_cast<double>(kBlock) * widths * device.multiprocessors /
                      attention_rate(attention, shape).value();
  const double compute = waves_of(units / device.multiprocessors, device.gemm.wave_loss) *
                         (passed + attention.key_overhead) * step;
  const double moving = attention_bytes(shape) / device.memory.rate.value();
  return attention.floor + Seconds{overlapped(compute, moving, device.gemm.overlap_loss)};
}

double moved_bytes(const ir::GemmShape& shape) {
  const Moved moved = bytes_moved(shape);
  return moved.operands + moved.result;
}

double moved_bytes(const ir::AttentionShape& shape) {
  return attention_bytes(shape);
}

Seconds traffic_time(const DevicePerformance& device, const ir::TrafficShape& shape) {
  HEADROOM_ASSERT(shape.bytes >= 0 && shape.launches >= 1);
  const bool alone = shape.kind == ir::TrafficKind::kOneByOne;
  if (shape.kind != ir::TrafficKind::kElementwise && !alone) {
    const KindOfTraffic own = kind_of(device.memory, shape.kind);
    return static_cast<double>(shape.launches) * device.memory.floor +
           Bytes{shape.bytes} / own.rate +
           Seconds{static_cast<double>(shape.elements) * own.element};
  }
  const double each = static_cast<double>(shape.bytes) / static_cast<double>(shape.launches);
  const double fits = static_cast<double>(device.memory.cache.value());
  // What a launch leaves in the cache is available to the next one; a larger tensor evicts itself.
  const double cached = std::clamp(2 - 2 * each / fits, 0.0, 1.0) * each;
  double time =
      cached / device.memory.cached.value() + (each - cached) / device.memory.rate.value();
  if (device.memory.elements > 0 && (alone || !device.memory.wide)) {
    const double handled = static_cast<double>(shape.elements) / device.memory.elements;
    time = std::max(time, handled / static_cast<double>(shape.launches));
  }
  return static_cast<double>(shape.launches) * (device.memory.floor + Seconds{time});
}

Seconds copy_time(const DevicePerformance& device, const ir::CopyShape& shape) {
  HEADROOM_ASSERT(shape.bytes >= 0);
  const Bytes bytes{shape.bytes};
  switch (shape.kind) {
    case ir::CopyKind::kDeviceToDevice:
      return device.memory.floor + 2 * bytes / device.memory.rate;
    case ir::CopyKind::kHostToDevice:
      return device.host.latency + bytes / device.host.to_device;
    case ir::CopyKind::kDeviceToHost:
      return device.host.latency + bytes / device.host.to_host;
    case ir::CopyKind::kHostWork:
      return device.host.latency + bytes / device.host.work;
    case ir::CopyKind::kNvme:
      return device.host.latency + bytes / device.host.nvme;
  }
  return device.host.latency;
}

}  // namespace headroom::cost
