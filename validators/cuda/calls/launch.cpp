#include "validators/cuda/calls/launch.h"

#include <algorithm>

namespace headroom::cuda {
namespace {

constexpr std::int64_t kEight = 8;
constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kWarp = 32;
/// Enough to fill every device several times over.
constexpr std::int64_t kMostBlocks = 8192;

std::int64_t parts(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

}  // namespace

std::string launch_problem(const std::string& kernel, const Grid& grid, int most_threads,
                           std::size_t static_bytes, const LaunchLimits& limits) {
  const auto beyond = [&kernel](const std::string& what, auto value, auto limit) {
    return "kernel " + kernel + " asks for " + std::to_string(value) + " " + what +
           "; the limit is " + std::to_string(limit);
  };
  if (grid.x < 1 || grid.x > limits.grid_x) {
    return beyond("blocks (x)", grid.x, limits.grid_x);
  }
  if (grid.y < 1 || grid.y > limits.grid_y) {
    return beyond("blocks (y)", grid.y, limits.grid_y);
  }
  if (grid.z < 1 || grid.z > limits.grid_z) {
    return beyond("blocks (z)", grid.z, limits.grid_z);
  }
  if (const int threads = std::min(most_threads, limits.threads);
      grid.threads < 1 || grid.threads > threads) {
    return beyond("threads", grid.threads, threads);
  }
  if (grid.shared_bytes + static_bytes > limits.shared_bytes) {
    return beyond("bytes of shared memory", grid.shared_bytes + static_bytes, limits.shared_bytes);
  }
  return "";
}

const char* type_name(std::int32_t type) {
  switch (type) {
    case HEADROOM_FP32:
      return "fp32";
    case HEADROOM_BF16:
      return "bf16";
    case HEADROOM_FP16:
      return "fp16";
    default:
      return nullptr;
  }
}

Grid grid_of_elements(std::int64_t count) {
  return {.x = std::min(parts(count, kEight * kThreads), kMostBlocks)};
}

Grid grid_of_all(std::int64_t count) {
  return {.x = parts(count, kThreads)};
}

Grid grid_of_matrix(std::int64_t rows, std::int64_t columns) {
  return {.x = std::min(parts(rows * parts(columns, kEight), kThreads), kMostBlocks)};
}

Grid grid_of_rows(std::int64_t rows, std::int64_t columns, int most_threads) {
  const std::int64_t wanted = parts(parts(columns, kEight), kWarp) * kWarp;
  return {.x = rows,
          .threads = static_cast<int>(std::clamp<std::int64_t>(wanted, kWarp, most_threads))};
}

}  // namespace headroom::cuda
