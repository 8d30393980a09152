// NVML: what nvidia-smi and torch.cuda ask of the devices.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "validators/dryrun/standin/device.h"

namespace headroom::standin {
namespace {

constexpr int kNvmlInvalidArgument = 2;
constexpr const char* kDriverRelease = "580.65.06";

/// nvmlMemory_t and nvmlMemory_v2_t.
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct NvmlMemory2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

void* handle_of(unsigned index) {
  return reinterpret_cast<void*>(std::uintptr_t{0x100} + index);
}

int index_of(const void* handle) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(handle) - 0x100);
}

int find_device(unsigned index, void** handle) {
  if (index >= static_cast<unsigned>(device().profile.devices)) {
    return kNvmlInvalidArgument;
  }
  *handle = handle_of(index);
  return 0;
}

void print(char* text, unsigned size, const char* value) {
  std::snprintf(text, size, "%s", value);
}

}  // namespace
}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

int nvmlInit() {
  return 0;
}
int nvmlInit_v2() {
  return 0;
}
int nvmlInitWithFlags(unsigned /*flags*/) {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int status) {
  return status == 0                      ? "Success"
         : status == kNvmlInvalidArgument ? "Invalid Argument"
                                          : "Not Supported";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  print(text, size, kDriverRelease);
  return 0;
}
int nvmlSystemGetNVMLVersion(char* text, unsigned size) {
  print(text, size, "13.580.65.06");
  return 0;
}
int nvmlSystemGetCudaDriverVersion(int* version) {
  *version = 13000;
  return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}
int nvmlDeviceGetCount(unsigned* count) {
  *count = static_cast<unsigned>(device().profile.devices);
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  return nvmlDeviceGetCount(count);
}
int nvmlDeviceGetHandleByIndex(unsigned index, void** handle) {
  return find_device(index, handle);
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  return find_device(index, handle);
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  unsigned index = 0;
  const char* last = std::strrchr(uuid, '-');
  if (last != nullptr && std::sscanf(last, "-%x", &index) == 1 && index > 0) {
    return find_device(index - 1, handle);
  }
  return kNvmlInvalidArgument;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** handle) {
  unsigned index = 0;
  const char* colon = std::strchr(bus, ':');
  if (colon != nullptr && std::sscanf(colon, ":%x", &index) == 1 && index > 0) {
    return find_device(index - 1, handle);
  }
  return kNvmlInvalidArgument;
}
int nvmlDeviceGetIndex(void* handle, unsigned* index) {
  *index = static_cast<unsigned>(index_of(handle));
  return 0;
}
int nvmlDeviceGetName(void* /*handle*/, char* text, unsigned size) {
  print(text, size, device().profile.name.c_str());
  return 0;
}
int nvmlDeviceGetUUID(void* handle, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-00000000-0000-0000-0000-%012x",
                static_cast<unsigned>(index_of(handle) + 1));
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* /*handle*/, int* major, int* minor) {
  *major = device().profile.capability_major;
  *minor = device().profile.capability_minor;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* handle, NvmlMemory* memory) {
  Locked gpu;
  const int at = index_of(handle);
  *memory = {gpu->profile.total_bytes, gpu->memory.free(at), gpu->memory.used(at)};
  return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void* handle, NvmlMemory2* memory) {
  Locked gpu;
  const int at = index_of(handle);
  *memory = {memory->version, gpu->profile.total_bytes, 0, gpu->memory.free(at),
             gpu->memory.used(at)};
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* /*handle*/, unsigned* rates) {
  rates[0] = 100;  // of the multiprocessors
  rates[1] = 0;    // of the memory
  return 0;
}
int nvmlDeviceGetP2PStatus(void* /*from*/, void* /*to*/, int /*what*/, int* status) {
  *status = 0;
  return 0;
}
int nvmlDeviceGetNvLinkState(void* /*handle*/, unsigned /*link*/, unsigned* active) {
  *active = 1;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses(void* /*handle*/, unsigned* count, void* /*processes*/) {
  *count = 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void* handle, unsigned* count, void* processes) {
  return nvmlDeviceGetComputeRunningProcesses(handle, count, processes);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, void* processes) {
  return nvmlDeviceGetComputeRunningProcesses(handle, count, processes);
}
}
