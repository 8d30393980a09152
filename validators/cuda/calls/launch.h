#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "validators/executor/device_abi.h"

/// Launches of kernels by functions of the device's table. The plugin starts them on a GPU, the
/// emulation on the host.
namespace headroom::cuda {

/// Blocks, threads of a block, and bytes of shared memory that the launch asks for.
struct Grid {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;
  int threads = 256;
  std::size_t shared_bytes = 0;
};

/// The largest launch that a device can start.
struct LaunchLimits {
  std::int64_t grid_x = 2147483647;
  std::int64_t grid_y = 65535;
  std::int64_t grid_z = 65535;
  int threads = 1024;
  std::size_t shared_bytes = 0;  ///< Static and dynamic shared memory of a block.
};
/// A sentence that says what is wrong with a launch, or "".
[[nodiscard]] std::string launch_problem(const std::string& kernel, const Grid& grid,
                                         int most_threads, std::size_t static_bytes,
                                         const LaunchLimits& limits);

/// The element type in the name of a kernel; nullptr: kernels do not have it.
[[nodiscard]] const char* type_name(std::int32_t type);

// The plugin and the emulation have one of each.
/// Fails with a sentence.
[[nodiscard]] std::int32_t fail(HeadroomDevice* device, const std::string& sentence);
[[nodiscard]] std::int32_t launch_kernel(HeadroomDevice* device, HeadroomStream stream,
                                         const std::string& kernel, const Grid& grid,
                                         const void* arguments, std::size_t argument_bytes);

/// Starts the kernel of `arguments` for element types in the order of its name. A grid without
/// blocks is a no-op.
template <typename Arguments>
[[nodiscard]] std::int32_t launch(HeadroomDevice* device, HeadroomStream stream,
                                  std::initializer_list<std::int32_t> types, const Grid& grid,
                                  const Arguments& arguments) {
  std::string name = Arguments::kKernel;
  for (const std::int32_t type : types) {
    const char* const known = type_name(type);
    if (known == nullptr) {
      return fail(device, std::string("CUDA has no kernel ") + Arguments::kKernel +
                              " for the element type " + std::to_string(type));
    }
    name += std::string("_") + known;
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return 0;
  }
  return launch_kernel(device, stream, name, grid, &arguments, sizeof arguments);
}

/// One thread for eight of `count` elements; threads go on until nothing is left.
[[nodiscard]] Grid grid_of_elements(std::int64_t count);
/// One thread for each of `count` elements; as many threads as elements.
[[nodiscard]] Grid grid_of_all(std::int64_t count);
/// The same for elements of a matrix of which a thread works on eight neighbours.
[[nodiscard]] Grid grid_of_matrix(std::int64_t rows, std::int64_t columns);
/// One block for each row of `columns` elements; at most `most_threads` threads.
[[nodiscard]] Grid grid_of_rows(std::int64_t rows, std::int64_t columns, int most_threads = 256);

// Each file of calls fills its part of the table.
void add_data(HeadroomDeviceTable& table);
void add_elementwise(HeadroomDeviceTable& table);
void add_norm(HeadroomDeviceTable& table);
void add_attention(HeadroomDeviceTable& table);
void add_loss(HeadroomDeviceTable& table);
void add_experts(HeadroomDeviceTable& table);
void add_fp8(HeadroomDeviceTable& table);
void add_optimizer(HeadroomDeviceTable& table);

/// Everything that kernels do: all but device, memory, streams and matrix products.
inline void add_kernels(HeadroomDeviceTable& table) {
  add_data(table);
  add_elementwise(table);
  add_norm(table);
  add_attention(table);
  add_loss(table);
  add_experts(table);
  add_fp8(table);
  add_optimizer(table);
}

}  // namespace headroom::cuda
