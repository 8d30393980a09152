// Devices, memory, streams and events of the table, and the function that the plugin exports.
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "validators/cuda/calls/guarded_table.h"
#include "validators/cuda/calls/launch.h"
#include "validators/cuda/calls/products.h"
#include "validators/cuda/plugin/device.h"
#include "validators/cuda/plugin/kernel_images.h"

namespace headroom::cuda {
namespace {

CUdeviceptr address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

std::size_t size(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

/// "13.0" of 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
/// "13.1" of 130100, cuBLASLt's form, or of 13000.
std::string blas_version_text(std::size_t version) {
  const std::size_t unit = version >= 100000 ? 10000 : 1000;
  return std::to_string(version / unit) + "." + std::to_string(version % unit / (unit / 100));
}

// --- Opening ------------------------------------------------------------------------------------

std::string find_device(HeadroomDevice& d, std::int32_t ordinal) {
  if (std::string missing = d.driver.load(); !missing.empty()) {
    return missing;
  }
  const CUresult begun = d.driver.cuInit(0);
  if (begun == CUDA_ERROR_STUB_LIBRARY) {
    return "libcuda.so.1 is the toolkit's stub, not an NVIDIA driver";
  }
  int count = 0;
  if (begun != CUDA_ERROR_NO_DEVICE) {
    if (begun != CUDA_SUCCESS) {
      return d.driver.sentence("cuInit", begun);
    }
    if (const CUresult code = d.driver.cuDeviceGetCount(&count); code != CUDA_SUCCESS) {
      return d.driver.sentence("cuDeviceGetCount", code);
    }
  }
  if (count == 0) {
    return "the NVIDIA driver finds no GPU";
  }
  if (ordinal < 0 || ordinal >= count) {
    return "there is no GPU " + std::to_string(ordinal) + ": the driver finds " +
           std::to_string(count) + ", counted from 0";
  }
  if (const CUresult code = d.driver.cuDeviceGet(&d.ordinal, ordinal); code != CUDA_SUCCESS) {
    return d.driver.sentence("cuDeviceGet", code);
  }
  return "";
}

int attribute(const HeadroomDevice& d, CUdevice_attribute which) {
  int value = 0;
  return d.driver.cuDeviceGetAttribute(&value, which, d.ordinal) == CUDA_SUCCESS ? value : 0;
}

std::string read_limits(HeadroomDevice& d) {
  const int major = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  if (major < 8) {
    return "the GPU has compute capability " + std::to_string(major) + "." +
           std::to_string(attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)) +
           "; the kernels need 8.0 or newer";
  }
  d.capability = 10 * major + attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  d.limits = {.grid_x = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
              .grid_y = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
              .grid_z = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
              .threads = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
              .shared_bytes = static_cast<std::size_t>(
                  attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN))};
  return "";
}

std::string load_everything(HeadroomDevice& d) {
  if (const CUresult code = d.driver.cuDevicePrimaryCtxRetain(&d.context, d.ordinal);
      code != CUDA_SUCCESS) {
    d.context = nullptr;
    return d.driver.sentence("cuDevicePrimaryCtxRetain", code);
  }
  if (const CUresult code = d.driver.cuCtxSetCurrent(d.context); code != CUDA_SUCCESS) {
    return d.driver.sentence("cuCtxSetCurrent", code);
  }
  for (const void* const image : kernel_images()) {
    CUmodule module = nullptr;
    const CUresult code = d.driver.cuModuleLoadData(&module, image);
    if (code == CUDA_ERROR_NO_BINARY_FOR_GPU || code == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
      return "the driver cannot load the kernels: " + d.driver.sentence("cuModuleLoadData", code) +
             "; build the plugin with a toolkit that is not newer than the driver";
    }
    if (code != CUDA_SUCCESS) {
      return d.driver.sentence("cuModuleLoadData", code);
    }
    d.modules.push_back(module);
  }
  if (std::string missing = d.blas.load(); !missing.empty()) {
    return missing;
  }
  if (const cublasStatus_t status = d.blas.cublasLtCreate(&d.blas_handle);
      status != CUBLAS_STATUS_SUCCESS) {
    d.blas_handle = nullptr;
    return Blas::sentence("cublasLtCreate", status);
  }
  CUstream compute = nullptr;
  if (const CUresult code = d.driver.cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING);
      code != CUDA_SUCCESS) {
    return d.driver.sentence("cuStreamCreate", code);
  }
  d.streams.push_back(compute);
  return "";
}

std::int32_t open(const HeadroomOpen* how, HeadroomDevice** device, char* message,
                  std::int64_t message_size) {
  *device = nullptr;
  auto made = std::make_unique<HeadroomDevice>();
  made->workspace_bytes = how->workspace_bytes;
  std::string problem = find_device(*made, how->ordinal);
  if (problem.empty()) {
    problem = read_limits(*made);
  }
  if (problem.empty()) {
    problem = load_everything(*made);
  }
  if (!problem.empty()) {
    std::snprintf(message, size(message_size), "%s", problem.c_str());
    return 1;
  }
  *device = made.release();
  return 0;
}

void close(HeadroomDevice* device) {
  const std::unique_ptr<HeadroomDevice> owned(device);
}

const char* last_error(HeadroomDevice* d) {
  return d->error.c_str();
}

std::int32_t memory_info(HeadroomDevice* d, std::int64_t* free_bytes, std::int64_t* total_bytes) {
  d->enter();
  std::size_t available = 0;
  std::size_t total = 0;
  const std::int32_t code = d->answer("cuMemGetInfo", d->driver.cuMemGetInfo(&available, &total));
  *free_bytes = static_cast<std::int64_t>(available);
  *total_bytes = static_cast<std::int64_t>(total);
  return code;
}

std::int32_t info(HeadroomDevice* d, HeadroomDeviceInfo* info) {
  *info = {};
  d->enter();
  int version = 0;
  std::int32_t code = d->answer(
      "cuDeviceGetName", d->driver.cuDeviceGetName(info->name, sizeof info->name, d->ordinal));
  if (code == 0) {
    code = d->answer("cuDriverGetVersion", d->driver.cuDriverGetVersion(&version));
  }
  if (code == 0) {
    code = memory_info(d, &info->free_bytes, &info->total_bytes);
  }
  info->compute_major = attribute(*d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  info->compute_minor = attribute(*d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info->multiprocessors = attribute(*d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info->can_compute = d->driver.is_standin ? 0 : 1;
  std::snprintf(info->libraries, sizeof info->libraries, "driver for CUDA %s, cuBLASLt %s",
                version_text(version).c_str(),
                blas_version_text(d->blas.cublasLtGetVersion()).c_str());
  return code;
}

// --- Memory -------------------------------------------------------------------------------------

std::int32_t memory_allocate(HeadroomDevice* d, std::int64_t bytes, void** memory) {
  *memory = nullptr;
  d->enter();
  CUdeviceptr at = 0;
  const CUresult code = d->driver.cuMemAlloc(&at, size(bytes));
  if (code == CUDA_ERROR_OUT_OF_MEMORY) {
    return 0;
  }
  *memory = reinterpret_cast<void*>(at);
  return d->answer("cuMemAlloc", code);
}

std::int32_t memory_free(HeadroomDevice* d, void* memory) {
  d->enter();
  return d->answer("cuMemFree", d->driver.cuMemFree(address(memory)));
}

std::int32_t host_allocate(HeadroomDevice* d, std::int64_t bytes, void** host) {
  *host = nullptr;
  d->enter();
  const CUresult code = d->driver.cuMemHostAlloc(host, size(bytes), CU_MEMHOSTALLOC_PORTABLE);
  if (code == CUDA_ERROR_OUT_OF_MEMORY) {
    *host = nullptr;
    return 0;
  }
  return d->answer("cuMemHostAlloc", code);
}

std::int32_t host_free(HeadroomDevice* d, void* host) {
  d->enter();
  return d->answer("cuMemFreeHost", d->driver.cuMemFreeHost(host));
}

std::int32_t copy(HeadroomDevice* d, HeadroomStream stream, void* to, const void* from,
                  std::int64_t bytes, std::int32_t kind) {
  if (bytes == 0) {
    return 0;
  }
  d->enter();
  switch (kind) {
    case HEADROOM_HOST_TO_DEVICE:
      return d->answer("cuMemcpyHtoDAsync", d->driver.cuMemcpyHtoDAsync(
                                                address(to), from, size(bytes), d->stream(stream)));
    case HEADROOM_DEVICE_TO_HOST:
      return d->answer("cuMemcpyDtoHAsync", d->driver.cuMemcpyDtoHAsync(
                                                to, address(from), size(bytes), d->stream(stream)));
    default:
      return d->answer(
          "cuMemcpyDtoDAsync",
          d->driver.cuMemcpyDtoDAsync(address(to), address(from), size(bytes), d->stream(stream)));
  }
}

std::int32_t copy_rows(HeadroomDevice* d, HeadroomStream stream, void* to, std::int64_t to_pitch,
                       const void* from, std::int64_t from_pitch, std::int64_t row_bytes,
                       std::int64_t rows) {
  if (row_bytes == 0 || rows == 0) {
    return 0;
  }
  d->enter();
  CUDA_MEMCPY2D call{};
  call.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  call.srcDevice = address(from);
  call.srcPitch = size(from_pitch);
  call.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  call.dstDevice = address(to);
  call.dstPitch = size(to_pitch);
  call.WidthInBytes = size(row_bytes);
  call.Height = size(rows);
  return d->answer("cuMemcpy2DAsync", d->driver.cuMemcpy2DAsync(&call, d->stream(stream)));
}

std::int32_t clear(HeadroomDevice* d, HeadroomStream stream, void* memory, std::int64_t bytes) {
  if (bytes == 0) {
    return 0;
  }
  d->enter();
  return d->answer("cuMemsetD8Async",
                   d->driver.cuMemsetD8Async(address(memory), 0, size(bytes), d->stream(stream)));
}

// --- Streams and events -------------------------------------------------------------------------

std::int32_t stream_create(HeadroomDevice* d, HeadroomStream* stream) {
  d->enter();
  CUstream made = nullptr;
  const std::int32_t code =
      d->answer("cuStreamCreate", d->driver.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  if (code == 0) {
    *stream = static_cast<HeadroomStream>(d->streams.size());
    d->streams.push_back(made);
  }
  return code;
}

std::int32_t stream_synchronize(HeadroomDevice* d, HeadroomStream stream) {
  d->enter();
  return d->answer("cuStreamSynchronize", d->driver.cuStreamSynchronize(d->stream(stream)));
}

std::int32_t event_create(HeadroomDevice* d, HeadroomEvent* event) {
  d->enter();
  CUevent made = nullptr;
  const std::int32_t code =
      d->answer("cuEventCreate", d->driver.cuEventCreate(&made, CU_EVENT_DEFAULT));
  if (code == 0) {
    *event = static_cast<HeadroomEvent>(d->events.size());
    d->events.push_back(made);
  }
  return code;
}

std::int32_t event_destroy(HeadroomDevice* d, HeadroomEvent event) {
  d->enter();
  CUevent& own = d->events[static_cast<std::size_t>(event)];
  return d->answer("cuEventDestroy", d->driver.cuEventDestroy(std::exchange(own, nullptr)));
}

std::int32_t event_record(HeadroomDevice* d, HeadroomEvent event, HeadroomStream stream) {
  d->enter();
  return d->answer(
      "cuEventRecord",
      d->driver.cuEventRecord(d->events[static_cast<std::size_t>(event)], d->stream(stream)));
}

std::int32_t event_wait(HeadroomDevice* d, HeadroomEvent event, HeadroomStream stream) {
  d->enter();
  return d->answer(
      "cuStreamWaitEvent",
      d->driver.cuStreamWaitEvent(d->stream(stream), d->events[static_cast<std::size_t>(event)],
                                  CU_EVENT_WAIT_DEFAULT));
}

std::int32_t event_seconds(HeadroomDevice* d, HeadroomEvent begin, HeadroomEvent end,
                           double* seconds) {
  d->enter();
  const CUevent last = d->events[static_cast<std::size_t>(end)];
  std::int32_t code = d->answer("cuEventSynchronize", d->driver.cuEventSynchronize(last));
  float milliseconds = 0;
  if (code == 0) {
    code = d->answer(
        "cuEventElapsedTime",
        d->driver.elapsed_time(&milliseconds, d->events[static_cast<std::size_t>(begin)], last));
  }
  *seconds = static_cast<double>(milliseconds) / 1000;
  return code;
}

HeadroomDeviceTable make_table() {
  HeadroomDeviceTable table{};
  table.version = HEADROOM_DEVICE_ABI_VERSION;
  table.size = static_cast<std::int32_t>(sizeof table);
  table.backend = "cuda";
  table.open = open;
  table.close = close;
  table.last_error = last_error;
  table.info = info;
  table.memory_info = memory_info;
  table.memory_allocate = memory_allocate;
  table.memory_free = memory_free;
  table.host_allocate = host_allocate;
  table.host_free = host_free;
  table.copy = copy;
  table.copy_rows = copy_rows;
  table.clear = clear;
  table.stream_create = stream_create;
  table.stream_synchronize = stream_synchronize;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_wait = event_wait;
  table.event_seconds = event_seconds;
  add_kernels(table);
  add_products(table);
  return guarded_table(table);
}

}  // namespace
}  // namespace headroom::cuda

extern "C" __attribute__((visibility("default"))) const HeadroomDeviceTable*
headroom_device_backend() {
  static const HeadroomDeviceTable table = headroom::cuda::make_table();
  return &table;
}
