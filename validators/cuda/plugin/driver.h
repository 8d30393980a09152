#pragma once

#include <cuda.h>

#include <string>

namespace headroom::cuda {

// Functions of the driver that the plugin calls: one form of each, by the name that cuda.h gives
// it.
#define HEADROOM_DRIVER_FUNCTIONS(X) \
  X(cuCtxSetCurrent)                 \
  X(cuDeviceGet)                     \
  X(cuDeviceGetAttribute)            \
  X(cuDeviceGetCount)                \
  X(cuDeviceGetName)                 \
  X(cuDevicePrimaryCtxRelease)       \
  X(cuDevicePrimaryCtxRetain)        \
  X(cuDriverGetVersion)              \
  X(cuEventCreate)                   \
  X(cuEventDestroy)                  \
  X(cuEventRecord)                   \
  X(cuEventSynchronize)              \
  X(cuFuncGetAttribute)              \
  X(cuFuncSetAttribute)              \
  X(cuGetErrorName)                  \
  X(cuGetErrorString)                \
  X(cuInit)                          \
  X(cuLaunchKernel)                  \
  X(cuMemAlloc)                      \
  X(cuMemFree)                       \
  X(cuMemFreeHost)                   \
  X(cuMemGetInfo)                    \
  X(cuMemHostAlloc)                  \
  X(cuMemcpy2DAsync)                 \
  X(cuMemcpyDtoDAsync)               \
  X(cuMemcpyDtoHAsync)               \
  X(cuMemcpyHtoDAsync)               \
  X(cuMemsetD8Async)                 \
  X(cuModuleGetFunction)             \
  X(cuModuleLoadData)                \
  X(cuModuleUnload)                  \
  X(cuStreamCreate)                  \
  X(cuStreamDestroy)                 \
  X(cuStreamSynchronize)             \
  X(cuStreamWaitEvent)

/// The driver's library, found at run time, so that the plugin can be loaded without it.
struct Driver {
#define HEADROOM_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
  HEADROOM_DRIVER_FUNCTIONS(HEADROOM_DRIVER_MEMBER)
#undef HEADROOM_DRIVER_MEMBER
  /// Its second form (CUDA 12.8) differs in no argument; older drivers have the first alone.
  CUresult (*elapsed_time)(float* milliseconds, CUevent begin, CUevent end) = nullptr;
  /// The library is the stand-in of the dry run, which computes nothing.
  bool is_standin = false;

  /// Loads the library. Returns what is missing in one sentence, or "".
  [[nodiscard]] std::string load();
  /// "cuMemAlloc failed: CUDA_ERROR_X (its text)".
  [[nodiscard]] std::string sentence(const char* call, CUresult code) const;
};

}  // namespace headroom::cuda
