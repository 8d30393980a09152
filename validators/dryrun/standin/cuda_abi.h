#pragma once

#include <cstddef>
#include <cstdint>

/// What CUDA's libraries and their callers agree on, as far as the stand-in needs it: numbers and
/// layouts of the binary interface of CUDA 12 and 13.
///
/// Source: the headers cuda_runtime_api.h, driver_types.h, cuda.h, cublasLt.h, nccl.h and nvml.h of
///         CUDA 12.8, CUDA 13.0, NCCL 2.27 and 2.28; numbers and layouts are the same in both
///         majors where no major is named.
namespace headroom::standin {

using Status = int;  ///< Of every call; each library has its own numbers.

constexpr Status kSuccess = 0;
constexpr Status kInvalidValue = 1;  ///< cudaErrorInvalidValue, CUDA_ERROR_INVALID_VALUE.
constexpr Status kOutOfMemory = 2;   ///< cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY.
constexpr Status kInvalidDevice = 101;
constexpr Status kInvalidHandle = 400;
constexpr Status kNotFound = 500;
constexpr Status kNotReady = 600;
constexpr Status kNotSupported = 801;

/// cudaMemoryType; the driver's CUmemorytype has the same numbers for host and device.
enum MemoryType : int { kUnregistered = 0, kHostMemory = 1, kDeviceMemory = 2, kManagedMemory = 3 };

/// struct cudaPointerAttributes up to what both majors have (CUDA 13 appends reserved words).
struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
};
static_assert(sizeof(PointerAttributes) == 24);

/// struct cudaFuncAttributes up to maxDynamicSharedSizeBytes; the rest stays zero.
struct FunctionAttributes {
  std::size_t shared_bytes;
  std::size_t constant_bytes;
  std::size_t local_bytes;
  int max_threads_per_block;
  int registers;
  int ptx_version;
  int binary_version;
  int cache_mode_ca;
  int max_dynamic_shared_bytes;
  int rest[24];
};
static_assert(sizeof(FunctionAttributes) == 144);

/// CUmemAllocationProp: where cuMemCreate takes memory.
struct AllocationProperties {
  int type;
  int handle_types;
  int location_type;  ///< 1: a device, 2: the host.
  int location;
  void* win32;
  std::uint64_t flags;
};
static_assert(sizeof(AllocationProperties) == 32);
constexpr int kLocationDevice = 1;

struct Dim3 {
  unsigned x;
  unsigned y;
  unsigned z;
};

/// ncclUniqueId, which calls pass by value.
struct UniqueId {
  char bytes[128];
};

using Stream = void*;
using Event = void*;
using HostFunction = void (*)(void*);
using StreamCallback = void (*)(Stream, Status, void*);

}  // namespace headroom::standin
