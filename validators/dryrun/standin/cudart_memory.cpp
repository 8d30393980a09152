// The CUDA runtime: memory.
#include <algorithm>
#include <array>
#include <cstring>

#include "validators/dryrun/standin/device.h"
#include "validators/dryrun/standin/last_error.h"

namespace headroom::standin {
namespace {

Status allocate_device(void** address, std::size_t bytes) {
  Locked gpu;
  *address = gpu->memory.allocate(bytes, current_device());
  return keep_error(*address == nullptr ? kOutOfMemory : kSuccess);
}

Status allocate_host(void** address, std::size_t bytes, HostMemory::Kind kind) {
  Locked gpu;
  *address = gpu->host.allocate(bytes, kind);
  return keep_error(*address == nullptr ? kOutOfMemory : kSuccess);
}

Status release_device(void* address) {
  if (address == nullptr) {
    return kSuccess;
  }
  Locked gpu;
  if (const auto gone = gpu->memory.release(address)) {
    gpu->values.forget(address, gone->bytes);
    return kSuccess;
  }
  return keep_error(gpu->host.release(address) ? kSuccess : kInvalidValue);
}

Status release_host(void* address) {
  Locked gpu;
  return keep_error(address == nullptr || gpu->host.release(address) ? kSuccess : kInvalidValue);
}

/// A copy that the caller waits for.
Status copy_and_wait(void* to, const void* from, std::size_t bytes) {
  copy_memory(to, from, bytes);
  Locked gpu;
  gpu->queue.synchronize();
  return kSuccess;
}

Status copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                 std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    copy_memory(static_cast<char*>(to) + row * to_pitch,
                static_cast<const char*>(from) + row * from_pitch, width);
  }
  return kSuccess;
}

MemoryType type_of(const Device& gpu, const void* address) {
  if (gpu.memory.owns(address)) {
    return kDeviceMemory;
  }
  switch (gpu.host.kind(address)) {
    case HostMemory::Kind::kManaged:
      return kManagedMemory;
    case HostMemory::Kind::kPinned:
    case HostMemory::Kind::kRegistered:
      return kHostMemory;
    case HostMemory::Kind::kNone:
      break;
  }
  return kUnregistered;
}

/// cudaMemPoolAttr. Attributes 1 to 3 are of type int, the others are 64 bits wide.
constexpr int kLastSwitch = 3, kReserved = 5, kReservedPeak = 6, kUsed = 7, kUsedPeak = 8;

const std::array<void*, kMostDevices>& default_pools() {
  static const std::array<void*, kMostDevices> pools = [] {
    std::array<void*, kMostDevices> made{};
    std::ranges::generate(made, new_handle);
    return made;
  }();
  return pools;
}

/// Pools that the program makes are on its current device.
int device_of_pool(const void* pool) {
  const auto found = std::ranges::find(default_pools(), pool);
  return found == default_pools().end() ? current_device()
                                        : static_cast<int>(found - default_pools().begin());
}

}  // namespace

PointerAttributes attributes_of(const void* address) {
  Locked gpu;
  void* plain = const_cast<void*>(address);
  const MemoryType type = type_of(device(), address);
  const auto allocation = gpu->memory.find(address);
  PointerAttributes found{};
  found.type = type;
  found.device = allocation ? allocation->device : current_device();
  // Pinned memory has one address for both sides (unified addressing).
  found.device_pointer = type == kUnregistered ? nullptr : plain;
  found.host_pointer = type == kDeviceMemory ? nullptr : plain;
  return found;
}

}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

Status cudaMalloc(void** address, std::size_t bytes) {
  return allocate_device(address, bytes);
}
Status cudaMallocAsync(void** address, std::size_t bytes, Stream /*stream*/) {
  return allocate_device(address, bytes);
}
Status cudaMallocFromPoolAsync(void** address, std::size_t bytes, void* /*pool*/,
                               Stream /*stream*/) {
  return allocate_device(address, bytes);
}
Status cudaFree(void* address) {
  return release_device(address);
}
Status cudaFreeAsync(void* address, Stream /*stream*/) {
  return release_device(address);
}

// Managed memory moves between host and device on demand; it lives on the host here.
Status cudaMallocManaged(void** address, std::size_t bytes, unsigned /*flags*/) {
  return allocate_host(address, bytes, HostMemory::Kind::kManaged);
}
Status cudaHostAlloc(void** address, std::size_t bytes, unsigned /*flags*/) {
  return allocate_host(address, bytes, HostMemory::Kind::kPinned);
}
Status cudaMallocHost(void** address, std::size_t bytes) {
  return allocate_host(address, bytes, HostMemory::Kind::kPinned);
}
Status cudaFreeHost(void* address) {
  return release_host(address);
}
Status cudaHostRegister(void* address, std::size_t bytes, unsigned /*flags*/) {
  constexpr Status kAlreadyRegistered = 712;
  Locked gpu;
  return keep_error(gpu->host.enrol(address, bytes) ? kSuccess : kAlreadyRegistered);
}
Status cudaHostUnregister(void* address) {
  constexpr Status kNotRegistered = 713;
  Locked gpu;
  return keep_error(gpu->host.withdraw(address) ? kSuccess : kNotRegistered);
}
Status cudaHostGetDevicePointer(void** address, void* host, unsigned /*flags*/) {
  *address = host;
  return kSuccess;
}

Status cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Locked gpu;
  *free = gpu->memory.free(current_device());
  *total = gpu->profile.total_bytes;
  return kSuccess;
}
Status cudaPointerGetAttributes(PointerAttributes* attributes, const void* address) {
  *attributes = attributes_of(address);
  return kSuccess;
}

Status cudaMemcpy(void* to, const void* from, std::size_t bytes, int /*kind*/) {
  return copy_and_wait(to, from, bytes);
}
Status cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int /*kind*/,
                       Stream /*stream*/) {
  copy_memory(to, from, bytes);
  return kSuccess;
}
Status cudaMemcpyPeer(void* to, int /*to_device*/, const void* from, int /*from_device*/,
                      std::size_t bytes) {
  return copy_and_wait(to, from, bytes);
}
Status cudaMemcpyPeerAsync(void* to, int /*to_device*/, const void* from, int /*from_device*/,
                           std::size_t bytes, Stream /*stream*/) {
  copy_memory(to, from, bytes);
  return kSuccess;
}
Status cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                    std::size_t width, std::size_t height, int /*kind*/) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height);
}
Status cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, int /*kind*/, Stream /*stream*/) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height);
}
Status cudaMemset(void* address, int byte, std::size_t bytes) {
  fill_memory(address, byte, bytes);
  return kSuccess;
}
Status cudaMemsetAsync(void* address, int byte, std::size_t bytes, Stream /*stream*/) {
  fill_memory(address, byte, bytes);
  return kSuccess;
}

// Constants of kernels live in their module, outside what the program allocates.
Status cudaGetSymbolAddress(void** address, const void* /*symbol*/) {
  static void* const module = [] {
    Locked gpu;
    return gpu->memory.reserve(DeviceMemory::kPage);
  }();
  *address = module;
  return kSuccess;
}
Status cudaMemcpyToSymbol(const void* /*symbol*/, const void* /*from*/, std::size_t /*bytes*/,
                          std::size_t /*offset*/, int /*kind*/) {
  return kSuccess;
}

// The pool of cudaMallocAsync: nothing is kept in it.
Status cudaDeviceGetDefaultMemPool(void** pool, int of) {
  *pool = default_pools().at(static_cast<std::size_t>(of));
  return kSuccess;
}
Status cudaDeviceGetMemPool(void** pool, int of) {
  return cudaDeviceGetDefaultMemPool(pool, of);
}
Status cudaMemPoolCreate(void** pool, const void* /*properties*/) {
  *pool = new_handle();
  return kSuccess;
}
Status cudaMemPoolGetAttribute(const void* pool, int attribute, void* value) {
  if (attribute <= kLastSwitch) {
    const int on = 1;
    std::memcpy(value, &on, sizeof on);
    return kSuccess;
  }
  Locked gpu;
  const int at = device_of_pool(pool);
  std::uint64_t answer = 0;
  if (attribute == kReserved || attribute == kUsed) {
    answer = gpu->memory.used(at) - gpu->profile.context_bytes;
  } else if (attribute == kReservedPeak || attribute == kUsedPeak) {
    answer = gpu->memory.peak(at) - gpu->profile.context_bytes;
  }
  std::memcpy(value, &answer, sizeof answer);
  return kSuccess;
}
// Peaks accept only zero, which sets them to the bytes in use.
Status cudaMemPoolSetAttribute(const void* pool, int attribute, const void* value) {
  if (attribute != kReservedPeak && attribute != kUsedPeak) {
    return kSuccess;
  }
  std::uint64_t number = 0;
  std::memcpy(&number, value, sizeof number);
  if (number != 0) {
    return keep_error(kInvalidValue);
  }
  Locked gpu;
  gpu->memory.reset_peak(device_of_pool(pool));
  return kSuccess;
}
}
