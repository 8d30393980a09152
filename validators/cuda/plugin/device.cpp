#include "validators/cuda/plugin/device.h"

#include <array>
#include <atomic>

#include "validators/cuda/plugin/kernel_images.h"

HeadroomDevice::HeadroomDevice() {
  static std::atomic<std::uint64_t> opened = 0;
  identity = ++opened;
}

HeadroomDevice::~HeadroomDevice() {
  if (context == nullptr) {
    return;
  }
  // Nobody can be told that closing fails; the process gives everything back in the end.
  enter();
  products.clear();
  if (blas_handle != nullptr) {
    blas.cublasLtDestroy(blas_handle);
  }
  for (const CUmodule module : modules) {
    driver.cuModuleUnload(module);
  }
  for (const CUevent event : events) {
    if (event != nullptr) {
      driver.cuEventDestroy(event);
    }
  }
  for (const CUstream one : streams) {
    driver.cuStreamDestroy(one);
  }
  driver.cuDevicePrimaryCtxRelease(ordinal);
}

void HeadroomDevice::enter() const {
  thread_local std::uint64_t current = 0;
  if (current != identity && driver.cuCtxSetCurrent(context) == CUDA_SUCCESS) {
    current = identity;
  }
}

std::int32_t HeadroomDevice::answer(const char* call, CUresult code) {
  if (code == CUDA_SUCCESS) {
    return 0;
  }
  error = driver.sentence(call, code);
  // After these errors, nothing works in this process (CUDA driver API, CUresult).
  const bool is_sticky = code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_FAILED ||
                         code == CUDA_ERROR_MISALIGNED_ADDRESS ||
                         code == CUDA_ERROR_ILLEGAL_INSTRUCTION ||
                         code == CUDA_ERROR_HARDWARE_STACK_ERROR || code == CUDA_ERROR_INVALID_PC ||
                         code == CUDA_ERROR_LAUNCH_TIMEOUT ||
                         code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_ASSERT;
  if (is_sticky) {
    error += "; the GPU cannot be used any more in this process";
    if (!last_kernel.empty()) {
      error += ", and the kernel started last was " + last_kernel;
    }
  }
  return 1;
}

std::int32_t HeadroomDevice::answer(const char* call, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) {
    return 0;
  }
  error = headroom::cuda::Blas::sentence(call, status);
  return 1;
}

namespace headroom::cuda {
namespace {

constexpr std::size_t kOrdinaryShared = std::size_t{48} * 1024;

/// Finds a kernel in the modules. Its attributes are asked for once.
std::int32_t load_kernel(HeadroomDevice& d, const std::string& name, LoadedKernel& kernel) {
  CUresult code = CUDA_ERROR_NOT_FOUND;
  for (std::size_t i = 0; i < d.modules.size() && code == CUDA_ERROR_NOT_FOUND; ++i) {
    code = d.driver.cuModuleGetFunction(&kernel.function, d.modules[i], name.c_str());
  }
  if (d.answer(("cuModuleGetFunction of " + name).c_str(), code) != 0) {
    return 1;
  }
  int shared = 0;
  std::int32_t failed =
      d.answer("cuFuncGetAttribute",
               d.driver.cuFuncGetAttribute(
                   &kernel.most_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel.function));
  if (failed == 0) {
    failed = d.answer(
        "cuFuncGetAttribute",
        d.driver.cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel.function));
  }
  kernel.static_bytes = static_cast<std::size_t>(shared);
  kernel.allowed_bytes =
      kernel.static_bytes < kOrdinaryShared ? kOrdinaryShared - kernel.static_bytes : 0;
  return failed;
}

}  // namespace

std::int32_t fail(HeadroomDevice* device, const std::string& sentence) {
  device->error = sentence;
  return 1;
}

std::int32_t launch_kernel(HeadroomDevice* device, HeadroomStream stream, const std::string& name,
                           const Grid& grid, const void* arguments, std::size_t /*bytes*/) {
  HeadroomDevice& d = *device;
  d.enter();
  auto found = d.kernels.find(name);
  if (found == d.kernels.end()) {
    LoadedKernel loaded;
    if (load_kernel(d, name, loaded) != 0) {
      return 1;
    }
    found = d.kernels.emplace(name, loaded).first;
  }
  LoadedKernel& kernel = found->second;
  if (const std::string problem =
          launch_problem(name, grid, kernel.most_threads, kernel.static_bytes, d.limits);
      !problem.empty()) {
    return fail(device, problem);
  }
  if (grid.shared_bytes > kernel.allowed_bytes) {
    if (d.answer("cuFuncSetAttribute",
                 d.driver.cuFuncSetAttribute(kernel.function,
                                             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                             static_cast<int>(grid.shared_bytes))) != 0) {
      return 1;
    }
    kernel.allowed_bytes = grid.shared_bytes;
  }
  d.last_kernel = name;
  std::array<void*, 1> parameters = {const_cast<void*>(arguments)};
  return d.answer(
      ("cuLaunchKernel of " + name).c_str(),
      d.driver.cuLaunchKernel(
          kernel.function, static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
          static_cast<unsigned>(grid.z), static_cast<unsigned>(grid.threads), 1, 1,
          static_cast<unsigned>(grid.shared_bytes), d.stream(stream), parameters.data(), nullptr));
}

}  // namespace headroom::cuda
