#include "runtimes/fsdp/copy_tables.h"

#include <algorithm>
#include <cmath>

#include "model_ir/base/units.h"

namespace headroom::ir::fsdp {
namespace {

constexpr std::int64_t kThreadsPerBlock = 128;
constexpr std::int64_t kBytesPerBlock = kThreadsPerBlock * 16;  ///< 16 bytes per thread.
constexpr std::int64_t kEntryBytes = 8;
/// 2048 from compute capability 8.0 on, except 8.6 to 8.9 and 12.0, which have 1536.
constexpr std::int64_t kThreadsPerMultiprocessor = 2048;
constexpr std::int64_t kFewerThreadsPerMultiprocessor = 1536;

std::int64_t threads_per_multiprocessor(const DeviceTraits& device) {
  const bool small =
      (device.compute_major == 8 && device.compute_minor > 0) || device.compute_major == 12;
  if (device.compute_major == 7 && device.compute_minor == 5) {
    return kThreadsPerMultiprocessor / 2;  // CUDA C++ Programming Guide, compute capability 7.5.
  }
  return small ? kFewerThreadsPerMultiprocessor : kThreadsPerMultiprocessor;
}

std::int64_t blocks_of(std::span<const std::int64_t> chunk_bytes, std::int64_t bytes_per_block) {
  std::int64_t blocks = 0;
  for (const std::int64_t bytes : chunk_bytes) {
    blocks += ceil_div(bytes, bytes_per_block);
  }
  return blocks;
}

}  // namespace

std::int64_t split_copy_table_bytes(std::span<const std::int64_t> chunk_bytes, std::int64_t ranks,
                                    const DeviceTraits& device) {
  const std::int64_t most_blocks =
      device.multiprocessors * threads_per_multiprocessor(device) / kThreadsPerBlock * 2;
  const std::int64_t rounds = ceil_div(blocks_of(chunk_bytes, kBytesPerBlock) * ranks, most_blocks);
  const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(rounds))));
  const std::int64_t per_chunk = ceil_div(rounds, std::min(root, ranks));
  // The table holds destinations, sources, sizes, the parameter of each block, and running sums of
  // blocks.
  const auto count = static_cast<std::int64_t>(chunk_bytes.size());
  return (4 * count + 1 + blocks_of(chunk_bytes, kBytesPerBlock * per_chunk)) * kEntryBytes;
}

std::int64_t chunk_cat_table_bytes(std::span<const std::int64_t> chunk_bytes) {
  // The table holds sources, sizes, padded sizes, numbers of blocks, running sums of bytes and of
  // blocks, and the gradient of each block.
  const auto count = static_cast<std::int64_t>(chunk_bytes.size());
  return (6 * count + 2 + blocks_of(chunk_bytes, kBytesPerBlock)) * kEntryBytes;
}

}  // namespace headroom::ir::fsdp
