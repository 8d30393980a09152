// The CUDA runtime: kernels, their registration and their launch.
#include <algorithm>
#include <array>

#include "validators/dryrun/standin/device.h"
#include "validators/dryrun/standin/fat_binary.h"
#include "validators/dryrun/standin/kernels.h"

namespace headroom::standin {
namespace {

/// The configuration of a launch, which the caller passes to the stub of the kernel: grid, block,
/// shared memory and stream.
struct LaunchConfiguration {
  Dim3 grid;
  Dim3 block;
  std::size_t shared;
  void* stream;
};

/// Launches nest only as deep as constructors of arguments launch themselves.
constexpr std::size_t kDeepestNesting = 8;
thread_local std::array<LaunchConfiguration, kDeepestNesting> configurations;
thread_local std::size_t pushed = 0;

Status occupancy(int* blocks, int threads) {
  const Profile& profile = device().profile;
  *blocks = threads > 0 ? std::clamp(profile.threads_per_multiprocessor() / threads, 1,
                                     profile.blocks_per_multiprocessor())
                        : 1;
  return kSuccess;
}

}  // namespace
}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared, void* stream) {
  configurations[pushed++ % kDeepestNesting] = {grid, block, shared, stream};
  return 0;
}
Status __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared, void* stream) {
  const LaunchConfiguration& top = configurations[--pushed % kDeepestNesting];
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<void**>(stream) = top.stream;
  return kSuccess;
}
void** __cudaRegisterFatBinary(void* binary) {
  register_fat_binary(binary);
  return new void*(binary);
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** handle) {
  if (handle != nullptr) {
    unregister_fat_binary(*handle);
    delete handle;
  }
}
void __cudaRegisterFunction(void** /*handle*/, const char* host_function, char* /*device_function*/,
                            const char* name, int /*thread_limit*/, void* /*thread*/,
                            void* /*block*/, void* /*block_dim*/, void* /*grid_dim*/,
                            int* /*warp_size*/) {
  register_kernel(host_function, name);
}
void __cudaRegisterVar(void** /*handle*/, char* /*host*/, char* /*address*/, const char* /*name*/,
                       int /*external*/, std::size_t /*bytes*/, int /*constant*/, int /*global*/) {}
char __cudaInitModule(void** /*handle*/) {
  return 1;
}
Status __cudaGetKernel(const void** kernel, const void* host_function) {
  *kernel = host_function;
  return kSuccess;
}

Status cudaLaunchKernel(const void* function, Dim3 /*grid*/, Dim3 /*block*/, void** arguments,
                        std::size_t /*shared*/, Stream /*stream*/) {
  launch_kernel(function, arguments);
  return kSuccess;
}
Status __cudaLaunchKernel(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                          std::size_t shared, Stream stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
Status cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                                   std::size_t shared, Stream stream) {
  return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}
Status cudaLaunchKernelExC(const void* /*configuration*/, const void* function, void** arguments) {
  launch_kernel(function, arguments);
  return kSuccess;
}

Status cudaFuncGetAttributes(FunctionAttributes* attributes, const void* function) {
  return function_attributes(attributes, function);
}
Status cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*function*/,
                                                     int threads, std::size_t /*shared*/) {
  return occupancy(blocks, threads);
}
Status cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* /*function*/,
                                                              int threads, std::size_t /*shared*/,
                                                              unsigned /*flags*/) {
  return occupancy(blocks, threads);
}
Status cudaOccupancyMaxActiveClusters(int* clusters, const void* /*function*/,
                                      const void* /*configuration*/) {
  *clusters = 8;
  return kSuccess;
}
}
