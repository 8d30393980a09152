// The CUDA driver: devices, contexts, modules, kernels and how other libraries find its functions.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "validators/dryrun/standin/device.h"
#include "validators/dryrun/standin/device_attributes.h"
#include "validators/dryrun/standin/kernels.h"
#include "validators/dryrun/standin/status_text.h"
#include "validators/dryrun/standin/versions.h"

namespace headroom::standin {
namespace {

/// One context for each device, the primary one.
const std::array<void*, kMostDevices>& contexts() {
  static const std::array<void*, kMostDevices> all = [] {
    std::array<void*, kMostDevices> made{};
    std::ranges::generate(made, new_handle);
    return made;
  }();
  return all;
}

void* context_of(int of) {
  return contexts().at(static_cast<std::size_t>(of));
}

bool is_device(int of) {
  return of >= 0 && of < device().profile.devices;
}

/// The device of a context; the current one for any other handle.
int device_of(const void* context) {
  const auto found = std::ranges::find(contexts(), context);
  return found == contexts().end() ? current_device()
                                   : static_cast<int>(found - contexts().begin());
}

/// Devices that were current before contexts were pushed.
std::vector<int>& pushed_devices() {
  thread_local std::vector<int> devices;
  return devices;
}

/// Functions whose later forms have other arguments: the form that a caller of at least `version`
/// means. The first row that fits counts.
/// Source: cudaTypedefs.h of CUDA 13.0.
struct LaterForm {
  std::string_view name;
  int version;
  const char* form;
};
constexpr std::array<LaterForm, 8> kLaterForms = {{
    {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
    {"cuStreamGetCtx", 12050, "cuStreamGetCtx_v2"},
    {"cuStreamGetCtx", 0, "cuStreamGetCtx"},
    {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
    {"cuGetProcAddress", 0, "cuGetProcAddress"},
    {"cuEventElapsedTime", 0, "cuEventElapsedTime"},
    {"cuCtxGetDevice", 0, "cuCtxGetDevice"},
    {"cuCtxSynchronize", 0, "cuCtxSynchronize"},
}};

/// The newest form of a driver function that the stand-in has: "cuMemGetInfo" is cuMemGetInfo_v2.
void* entry_point(const char* name, int cuda_version) {
  for (const LaterForm& form : kLaterForms) {
    if (form.name == name && cuda_version >= form.version) {
      return dlsym(RTLD_DEFAULT, form.form);
    }
  }
  const std::string base = name;
  void* newer = dlsym(RTLD_DEFAULT, (base + "_v2").c_str());
  return newer != nullptr ? newer : dlsym(RTLD_DEFAULT, name);
}

Status find_entry_point(const char* name, void** function, int cuda_version, int* result) {
  *function = entry_point(name, cuda_version);
  if (result != nullptr) {
    *result = *function != nullptr ? 0 : 1;  // ...ProcAddressQueryResult: success, symbol not found
  }
  return *function != nullptr ? kSuccess : kNotFound;
}

/// CU_FUNC_ATTRIBUTE_...: most threads of a block, registers, PTX and binary version.
int function_attribute(int attribute) {
  const Profile& profile = device().profile;
  switch (attribute) {
    case 0:
      return 1024;
    case 4:
      return 32;
    case 5:
    case 6:
      return profile.compiled_capability();
    default:
      return 0;
  }
}

}  // namespace
}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

Status cuInit(unsigned /*flags*/) {
  return kSuccess;
}
Status cuDriverGetVersion(int* version) {
  *version = version_of(13).cuda;
  return kSuccess;
}
Status cuDeviceGet(int* handle, int ordinal) {
  if (ordinal < 0 || ordinal >= device().profile.devices) {
    return kInvalidDevice;
  }
  *handle = ordinal;
  return kSuccess;
}
Status cuDeviceGetCount(int* count) {
  *count = device().profile.devices;
  return kSuccess;
}
Status cuDeviceGetName(char* name, int size, int /*of*/) {
  std::snprintf(name, static_cast<std::size_t>(size), "%s", device().profile.name.c_str());
  return kSuccess;
}
Status cuDeviceGetAttribute(int* value, int attribute, int of) {
  *value = device_attribute(device().profile, attribute, of);
  return kSuccess;
}
Status cuDeviceComputeCapability(int* major, int* minor, int /*of*/) {
  *major = device().profile.capability_major;
  *minor = device().profile.capability_minor;
  return kSuccess;
}
Status cuDeviceTotalMem_v2(std::size_t* bytes, int /*of*/) {
  *bytes = device().profile.total_bytes;
  return kSuccess;
}
Status cuDeviceGetUuid_v2(void* uuid, int of) {
  std::memset(uuid, 0, 16);
  static_cast<char*>(uuid)[15] = static_cast<char>(of + 1);
  return kSuccess;
}
Status cuDeviceGetUuid(void* uuid, int of) {
  return cuDeviceGetUuid_v2(uuid, of);
}
Status cuDeviceGetPCIBusId(char* text, int size, int of) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0",
                static_cast<unsigned>(of + 1));
  return kSuccess;
}
Status cuDeviceCanAccessPeer(int* can, int from, int to) {
  *can = from != to ? 1 : 0;
  return kSuccess;
}

Status cuCtxGetCurrent(void** context) {
  *context = context_of(current_device());
  return kSuccess;
}
// A program asks about streams of the device that is current. None is of a green context.
Status cuStreamGetCtx(Stream /*stream*/, void** context) {
  return cuCtxGetCurrent(context);
}
Status cuStreamGetCtx_v2(Stream /*stream*/, void** context, void** green) {
  *green = nullptr;
  return cuCtxGetCurrent(context);
}
Status cuCtxSetCurrent(const void* context) {
  current_device() = device_of(context);
  return kSuccess;
}
Status cuCtxPushCurrent_v2(const void* context) {
  pushed_devices().push_back(current_device());
  return cuCtxSetCurrent(context);
}
Status cuCtxCreate_v2(void** context, unsigned /*flags*/, int of) {
  if (!is_device(of)) {
    return kInvalidDevice;
  }
  *context = context_of(of);
  return cuCtxPushCurrent_v2(*context);
}
Status cuCtxPopCurrent_v2(void** context) {
  if (context != nullptr) {
    *context = context_of(current_device());
  }
  if (!pushed_devices().empty()) {
    current_device() = pushed_devices().back();
    pushed_devices().pop_back();
  }
  return kSuccess;
}
Status cuCtxGetDevice(int* current) {
  *current = current_device();
  return kSuccess;
}
Status cuCtxGetApiVersion(void* /*context*/, unsigned* version) {
  *version = 3020;
  return kSuccess;
}
Status cuCtxGetLimit(std::size_t* value, int /*limit*/) {
  *value = 0;
  return kSuccess;
}
Status cuDevicePrimaryCtxGetState(int /*of*/, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return kSuccess;
}
Status cuDevicePrimaryCtxRetain(void** context, int of) {
  if (!is_device(of)) {
    return kInvalidDevice;
  }
  *context = context_of(of);
  return kSuccess;
}

Status cuModuleLoad(void** module, const char* /*file*/) {
  *module = new_handle();
  return kSuccess;
}
Status cuModuleLoadData(void** module, const void* /*image*/) {
  *module = new_handle();
  return kSuccess;
}
Status cuModuleLoadDataEx(void** module, const void* /*image*/, unsigned /*count*/,
                          int* /*options*/, void** /*values*/) {
  *module = new_handle();
  return kSuccess;
}
Status cuModuleLoadFatBinary(void** module, const void* /*image*/) {
  *module = new_handle();
  return kSuccess;
}
Status cuModuleGetFunction(void** function, void* /*module*/, const char* /*name*/) {
  *function = new_handle();
  return kSuccess;
}
Status cuModuleGetGlobal_v2(std::uint64_t* address, std::size_t* bytes, void* /*module*/,
                            const char* /*name*/) {
  Locked gpu;
  if (address != nullptr) {
    *address = reinterpret_cast<std::uintptr_t>(gpu->memory.reserve(DeviceMemory::kPage));
  }
  if (bytes != nullptr) {
    *bytes = DeviceMemory::kPage;
  }
  return kSuccess;
}
Status cuLibraryLoadData(void** library, const void* /*code*/, int* /*jit*/, void** /*jit_values*/,
                         unsigned /*jit_count*/, int* /*options*/, void** /*values*/,
                         unsigned /*count*/) {
  *library = new_handle();
  return kSuccess;
}
Status cuLibraryGetKernel(void** kernel, void* /*library*/, const char* /*name*/) {
  *kernel = new_handle();
  return kSuccess;
}
Status cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return kSuccess;
}
Status cuFuncGetAttribute(int* value, int attribute, void* /*function*/) {
  *value = function_attribute(attribute);
  return kSuccess;
}
Status cuKernelGetAttribute(int* value, int attribute, void* /*kernel*/, int /*of*/) {
  *value = function_attribute(attribute);
  return kSuccess;
}
Status cuOccupancyMaxActiveClusters(int* clusters, void* /*function*/, const void* /*launch*/) {
  *clusters = 8;
  return kSuccess;
}
Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* /*function*/, int /*threads*/,
                                                   std::size_t /*shared*/) {
  *blocks = 1;
  return kSuccess;
}
// The linker joins pieces of code into one image; modules do not look into it.
Status cuLinkCreate_v2(unsigned /*count*/, int* /*options*/, void** /*values*/, void** link) {
  *link = new_handle();
  return kSuccess;
}
Status cuLinkComplete(void* /*link*/, void** image, std::size_t* bytes) {
  static std::array<char, 8> nothing{};
  *image = nothing.data();
  *bytes = nothing.size();
  return kSuccess;
}

Status cuLaunchKernel(void* function, unsigned /*gx*/, unsigned /*gy*/, unsigned /*gz*/,
                      unsigned /*bx*/, unsigned /*by*/, unsigned /*bz*/, unsigned /*shared*/,
                      Stream /*stream*/, void** arguments, void** /*extra*/) {
  launch_kernel(function, arguments);
  return kSuccess;
}
Status cuLaunchKernelEx(const void* /*launch*/, void* function, void** arguments,
                        void** /*extra*/) {
  launch_kernel(function, arguments);
  return kSuccess;
}
Status cuLaunchCooperativeKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, Stream stream,
                                 void** arguments) {
  return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, nullptr);
}

Status cuGetErrorString(Status error, const char** text) {
  const StatusText* const known = status_text(error);
  *text = known == nullptr ? nullptr : known->meaning;
  return known == nullptr ? kInvalidValue : kSuccess;
}
Status cuGetErrorName(Status error, const char** text) {
  const StatusText* const known = status_text(error);
  *text = known == nullptr ? nullptr : known->driver;
  return known == nullptr ? kInvalidValue : kSuccess;
}
Status cuGetProcAddress_v2(const char* name, void** function, int cuda_version,
                           std::uint64_t /*flags*/, int* result) {
  return find_entry_point(name, function, cuda_version, result);
}
Status cuGetProcAddress(const char* name, void** function, int cuda_version,
                        std::uint64_t /*flags*/) {
  return find_entry_point(name, function, cuda_version, nullptr);
}
// The runtime's form succeeds where nothing is found, and says so in `result`.
Status cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long /*flags*/,
                               int* result) {
  find_entry_point(name, function, 12000, result);
  return kSuccess;
}
Status cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                        unsigned long long /*flags*/, int* result) {
  find_entry_point(name, function, static_cast<int>(version), result);
  return kSuccess;
}
}
