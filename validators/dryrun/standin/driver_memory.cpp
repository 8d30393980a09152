// The CUDA driver: memory, streams and events.
#include <cstring>
#include <unordered_map>

#include "validators/dryrun/standin/device.h"
#include "validators/dryrun/standin/last_error.h"
#include "validators/dryrun/standin/streams.h"

namespace headroom::standin {
namespace {

/// Memory without an address, as cuMemCreate makes it.
struct Physical {
  std::size_t bytes;
  int device;
  int references;  ///< The handle itself and every mapping of it.
  bool released = false;
};

/// By the number of their handle.
std::unordered_map<std::uint64_t, Physical>& physicals() {
  static auto* const table = new std::unordered_map<std::uint64_t, Physical>;
  return *table;
}

/// Which memory stands behind a mapped address.
std::unordered_map<std::uint64_t, std::uint64_t>& mappings() {
  static auto* const table = new std::unordered_map<std::uint64_t, std::uint64_t>;
  return *table;
}

/// CUDA_MEMCPY2D. Source: cuda.h of CUDA 13.0.
struct Copy2D {
  std::size_t from_x, from_y;
  int from_type;
  const void* from_host;
  std::uint64_t from_device;
  void* from_array;
  std::size_t from_pitch;
  std::size_t to_x, to_y;
  int to_type;
  void* to_host;
  std::uint64_t to_device;
  void* to_array;
  std::size_t to_pitch;
  std::size_t width, height;
};

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

/// The last of the handle and its mappings gives the memory back.
void drop(Device& gpu, std::uint64_t handle) {
  const auto found = physicals().find(handle);
  if (found != physicals().end() && --found->second.references == 0) {
    gpu.memory.give(found->second.bytes, found->second.device);
    physicals().erase(found);
  }
}

Status pointer_attribute(void* value, int attribute, std::uint64_t address) {
  constexpr int kContext = 1, kType = 2, kDevicePointer = 3, kHostPointer = 4, kManaged = 8,
                kOrdinal = 9, kRangeStart = 11, kRangeSize = 12;
  const PointerAttributes known = attributes_of(pointer(address));
  const auto allocation = device().memory.find(pointer(address));
  std::uint64_t wide = 0;
  switch (attribute) {
    case kContext:
      break;
    case kType: {
      const int type = known.type == kHostMemory ? kHostMemory : kDeviceMemory;
      std::memcpy(value, &type, sizeof type);
      return known.type == kUnregistered ? kInvalidValue : kSuccess;
    }
    case kDevicePointer:
    case kHostPointer:
      wide = address;
      break;
    case kManaged: {
      const unsigned managed = known.type == kManagedMemory ? 1 : 0;
      std::memcpy(value, &managed, sizeof managed);
      return kSuccess;
    }
    case kOrdinal:
      std::memcpy(value, &known.device, sizeof known.device);
      return kSuccess;
    case kRangeStart:
      wide = allocation ? reinterpret_cast<std::uintptr_t>(allocation->address) : address;
      break;
    case kRangeSize:
      wide = allocation ? allocation->bytes : 0;
      break;
    default:
      return kNotSupported;
  }
  std::memcpy(value, &wide, sizeof wide);
  return known.type == kUnregistered && attribute == kDevicePointer ? kInvalidValue : kSuccess;
}

}  // namespace
}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

Status cudaMalloc(void** address, std::size_t bytes);
Status cudaMallocManaged(void** address, std::size_t bytes, unsigned flags);
Status cudaHostAlloc(void** address, std::size_t bytes, unsigned flags);
Status cudaHostRegister(void* address, std::size_t bytes, unsigned flags);
Status cudaHostUnregister(void* address);
Status cudaFree(void* address);
Status cudaFreeHost(void* address);
Status cudaMemGetInfo(std::size_t* free, std::size_t* total);

Status cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return cudaMemGetInfo(free, total);
}
Status cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  void* at = nullptr;
  const Status status = cudaMalloc(&at, bytes);
  *address = reinterpret_cast<std::uintptr_t>(at);
  return status;
}
Status cuMemAllocAsync(std::uint64_t* address, std::size_t bytes, Stream /*stream*/) {
  return cuMemAlloc_v2(address, bytes);
}
Status cuMemAllocManaged(std::uint64_t* address, std::size_t bytes, unsigned flags) {
  void* at = nullptr;
  const Status status = cudaMallocManaged(&at, bytes, flags);
  *address = reinterpret_cast<std::uintptr_t>(at);
  return status;
}
Status cuMemFree_v2(std::uint64_t address) {
  return cudaFree(pointer(address));
}
Status cuMemFreeAsync(std::uint64_t address, Stream /*stream*/) {
  return cudaFree(pointer(address));
}
Status cuMemHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(address, bytes, flags);
}
Status cuMemAllocHost_v2(void** address, std::size_t bytes) {
  return cudaHostAlloc(address, bytes, 0);
}
Status cuMemFreeHost(void* address) {
  return cudaFreeHost(address);
}
Status cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned flags) {
  return cudaHostRegister(address, bytes, flags);
}
Status cuMemHostUnregister(void* address) {
  return cudaHostUnregister(address);
}
Status cuMemHostGetDevicePointer_v2(std::uint64_t* address, void* host, unsigned /*flags*/) {
  *address = reinterpret_cast<std::uintptr_t>(host);
  return kSuccess;
}

Status cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProperties* /*of*/,
                                     int /*which*/) {
  *bytes = DeviceMemory::kPage;
  return kSuccess;
}
Status cuMemAddressReserve(std::uint64_t* address, std::size_t bytes, std::size_t /*alignment*/,
                           std::uint64_t /*wish*/, unsigned long long /*flags*/) {
  Locked gpu;
  *address = reinterpret_cast<std::uintptr_t>(gpu->memory.reserve(bytes));
  return *address == 0 ? kOutOfMemory : kSuccess;
}
Status cuMemAddressFree(std::uint64_t address, std::size_t bytes) {
  Locked gpu;
  gpu->memory.unreserve(pointer(address), bytes);
  return kSuccess;
}
Status cuMemCreate(std::uint64_t* handle, std::size_t bytes, const AllocationProperties* where,
                   unsigned long long /*flags*/) {
  Locked gpu;
  if (where->location_type != kLocationDevice) {
    return refuse("cuMemCreate of host memory", kNotSupported);
  }
  const int of = where->location;
  if (of < 0 || of >= gpu->profile.devices) {
    return kInvalidDevice;
  }
  if (!gpu->memory.take(bytes, of)) {
    return kOutOfMemory;
  }
  *handle = reinterpret_cast<std::uintptr_t>(new_handle());
  physicals()[*handle] = {.bytes = bytes, .device = of, .references = 1};
  return kSuccess;
}
Status cuMemRelease(std::uint64_t handle) {
  Locked gpu;
  const auto found = physicals().find(handle);
  if (found == physicals().end() || found->second.released) {
    return kInvalidValue;
  }
  found->second.released = true;
  drop(device(), handle);
  return kSuccess;
}
Status cuMemMap(std::uint64_t address, std::size_t bytes, std::size_t /*offset*/,
                std::uint64_t handle, unsigned long long /*flags*/) {
  Locked gpu;
  const auto found = physicals().find(handle);
  if (found == physicals().end()) {
    return kInvalidValue;
  }
  ++found->second.references;
  mappings()[address] = handle;
  gpu->memory.map(pointer(address), bytes, found->second.device);
  return kSuccess;
}
Status cuMemUnmap(std::uint64_t address, std::size_t bytes) {
  Locked gpu;
  // One call may span many mappings.
  for (std::uint64_t at = address; at < address + bytes;) {
    const auto allocation = gpu->memory.find(pointer(at));
    const auto mapped = mappings().find(at);
    if (!allocation || mapped == mappings().end()) {
      return kInvalidValue;
    }
    gpu->values.forget(allocation->address, allocation->bytes);
    gpu->memory.unmap(allocation->address);
    drop(device(), mapped->second);
    mappings().erase(mapped);
    at += allocation->bytes;
  }
  return kSuccess;
}
Status cuPointerGetAttribute(void* value, int attribute, std::uint64_t address) {
  Locked gpu;
  return pointer_attribute(value, attribute, address);
}
Status cuPointerGetAttributes(unsigned count, int* attributes, void** values,
                              std::uint64_t address) {
  Locked gpu;
  for (unsigned i = 0; i < count; ++i) {
    pointer_attribute(values[i], attributes[i], address);
  }
  return kSuccess;
}
Status cuMemGetAddressRange_v2(std::uint64_t* begin, std::size_t* bytes, std::uint64_t address) {
  Locked gpu;
  const auto allocation = gpu->memory.find(pointer(address));
  if (!allocation) {
    return kNotFound;
  }
  if (begin != nullptr) {
    *begin = reinterpret_cast<std::uintptr_t>(allocation->address);
  }
  if (bytes != nullptr) {
    *bytes = allocation->bytes;
  }
  return kSuccess;
}

Status cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  copy_memory(pointer(to), from, bytes);
  return kSuccess;
}
Status cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, Stream) {
  return cuMemcpyHtoD_v2(to, from, bytes);
}
Status cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  copy_memory(to, pointer(from), bytes);
  return kSuccess;
}
Status cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, Stream) {
  return cuMemcpyDtoH_v2(to, from, bytes);
}
Status cuMemcpyDtoD_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  copy_memory(pointer(to), pointer(from), bytes);
  return kSuccess;
}
Status cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, Stream) {
  return cuMemcpyDtoD_v2(to, from, bytes);
}
Status cuMemcpy2DAsync_v2(const Copy2D* copy, Stream) {
  Locked gpu;
  if (copy->to_type == kDeviceMemory && copy->height > 0) {
    gpu->values.forget(pointer(copy->to_device), (copy->height - 1) * copy->to_pitch + copy->width);
  }
  return kSuccess;
}
Status cuMemsetD8_v2(std::uint64_t at, unsigned char byte, std::size_t count) {
  fill_memory(pointer(at), byte, count);
  return kSuccess;
}
Status cuMemsetD32_v2(std::uint64_t at, unsigned value, std::size_t count) {
  // A word of equal bytes is a fill by that byte; another leaves device memory unknown.
  const unsigned byte = value & 0xFFU;
  if (value == byte * 0x01010101U) {
    fill_memory(pointer(at), static_cast<int>(byte), count * sizeof value);
  } else {
    Locked gpu;
    gpu->values.forget(pointer(at), count * sizeof value);
  }
  return kSuccess;
}
Status cuMemsetD32Async(std::uint64_t at, unsigned value, std::size_t count, Stream) {
  return cuMemsetD32_v2(at, value, count);
}
Status cuMemsetD8Async(std::uint64_t at, unsigned char byte, std::size_t count, Stream) {
  return cuMemsetD8_v2(at, byte, count);
}

Status cuStreamCreate(Stream* stream, unsigned /*flags*/) {
  return create_stream(stream);
}
Status cuStreamCreateWithPriority(Stream* stream, unsigned /*flags*/, int /*priority*/) {
  return create_stream(stream);
}
Status cuStreamSynchronize(Stream /*stream*/) {
  return synchronize_all();
}
Status cuCtxSynchronize() {
  return synchronize_all();
}
Status cuStreamQuery(Stream /*stream*/) {
  return query_stream();
}
Status cuStreamWaitEvent(Stream stream, Event event, unsigned /*flags*/) {
  return wait_event(stream, event);
}
Status cuThreadExchangeStreamCaptureMode(int* mode) {
  return exchange_capture_mode(mode);
}
Status cuStreamIsCapturing(Stream stream, int* status) {
  return is_capturing(stream, status);
}
Status cuStreamGetCaptureInfo_v2(Stream stream, int* status, unsigned long long* number,
                                 void** graph, const void** dependencies, std::size_t* count) {
  return capture_info(stream, {status, number, graph, dependencies, nullptr, count});
}
Status cuStreamGetCaptureInfo_v3(Stream stream, int* status, unsigned long long* number,
                                 void** graph, const void** dependencies, const void** edges,
                                 std::size_t* count) {
  return capture_info(stream, {status, number, graph, dependencies, edges, count});
}
Status cuEventCreate(Event* event, unsigned /*flags*/) {
  return create_event(event);
}
Status cuEventDestroy_v2(Event event) {
  return destroy_event(event);
}
Status cuEventRecord(Event event, Stream stream) {
  return record_event(event, stream);
}
Status cuEventQuery(Event event) {
  return query_event(event);
}
Status cuEventSynchronize(Event event) {
  return synchronize_event(event);
}
Status cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  return event_milliseconds(milliseconds, from, to);
}
}
