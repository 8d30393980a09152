// The CUDA runtime: devices, errors and limits.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "validators/dryrun/standin/device.h"
#include "validators/dryrun/standin/device_attributes.h"
#include "validators/dryrun/standin/last_error.h"
#include "validators/dryrun/standin/status_text.h"
#include "validators/dryrun/standin/versions.h"

namespace headroom::standin {
namespace {

thread_local Status kept_error = kSuccess;

}  // namespace

Status keep_error(Status status) {
  if (status != kSuccess) {
    kept_error = status;
  }
  return status;
}

Status last_error(bool forget) {
  const Status error = kept_error;
  if (forget) {
    kept_error = kSuccess;
  }
  return error;
}

}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

Status cudaGetDeviceCount(int* count) {
  *count = device().profile.devices;
  return kSuccess;
}
Status cudaGetDevice(int* current) {
  *current = current_device();
  return kSuccess;
}
Status cudaSetDevice(int chosen) {
  if (chosen < 0 || chosen >= device().profile.devices) {
    return keep_error(kInvalidDevice);
  }
  current_device() = chosen;
  return kSuccess;
}
Status cudaInitDevice(int chosen, unsigned /*device_flags*/, unsigned /*flags*/) {
  return cudaSetDevice(chosen);
}
Status cudaDeviceGetAttribute(int* value, int attribute, int of) {
  *value = device_attribute(device().profile, attribute, of);
  return kSuccess;
}
// CUDA 13's layout has this name, CUDA 12's the other.
Status cudaGetDeviceProperties(void* properties, int of) {
  fill_properties(device().profile, 13, of, properties);
  return kSuccess;
}
Status cudaGetDeviceProperties_v2(void* properties, int of) {
  fill_properties(device().profile, 12, of, properties);
  return kSuccess;
}
Status cudaDeviceGetPCIBusId(char* text, int size, int of) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0",
                static_cast<unsigned>(of + 1));
  return kSuccess;
}
Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return kSuccess;
}
Status cudaDeviceCanAccessPeer(int* can, int from, int to) {
  *can = from != to ? 1 : 0;
  return kSuccess;
}
Status cudaDeviceGetP2PAttribute(int* value, int /*attribute*/, int /*from*/, int /*to*/) {
  *value = 1;
  return kSuccess;
}
Status cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return kSuccess;
}
Status cudaDeviceGetLimit(std::size_t* value, int limit) {
  // Defaults of the CUDA C++ Programming Guide: 1 KiB of stack for a thread, 8 MiB of heap.
  constexpr int kStack = 0, kHeap = 2;
  *value = limit == kStack ? 1024 : limit == kHeap ? std::size_t{8} << 20 : 0;
  return kSuccess;
}

// The driver is as new as the newest runtime: it serves older ones as well.
Status cudaDriverGetVersion(int* version) {
  *version = version_of(13).cuda;
  return kSuccess;
}

Status cudaGetLastError() {
  return last_error(true);
}
Status cudaPeekAtLastError() {
  return last_error(false);
}
const char* cudaGetErrorName(Status error) {
  const StatusText* const known = status_text(error);
  return known == nullptr ? "unrecognized error code" : known->runtime;
}
const char* cudaGetErrorString(Status error) {
  const StatusText* const known = status_text(error);
  return known == nullptr ? "unrecognized error code" : known->meaning;
}

/// struct cudaChannelFormatDesc, which is returned as a whole.
struct ChannelFormat {
  int x, y, z, w;
  int kind;
};
ChannelFormat cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}
}
