#include "validators/executor/cpu/cpu_backend.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "validators/executor/cpu/values.h"

namespace headroom::exec {
namespace cpu {
namespace {

/// The object behind a handle. Each backend has a type of its own behind the same handle.
struct CpuDevice {
  std::map<void*, std::int64_t> segments;
  std::int64_t used = 0;
  std::int32_t streams = 1;
  std::int32_t events = 0;
  std::string error;
};

CpuDevice& of(HeadroomDevice* handle) {
  return *reinterpret_cast<CpuDevice*>(handle);
}

}  // namespace

std::int32_t fail(HeadroomDevice* device, const char* sentence) {
  of(device).error = sentence;
  return 1;
}

std::int32_t answer(HeadroomDevice* device, bool known_type) {
  return known_type ? 0 : fail(device, "the CPU has no such element type");
}

namespace {

constexpr std::int64_t kTotal = std::int64_t{64} << 30;
constexpr std::size_t kAlignment = 256;

std::int32_t open(const HeadroomOpen*, HeadroomDevice** device, char*, std::int64_t) {
  *device = reinterpret_cast<HeadroomDevice*>(std::make_unique<CpuDevice>().release());
  return 0;
}

void close(HeadroomDevice* device) {
  const std::unique_ptr<CpuDevice> owned(&of(device));
}

const char* last_error(HeadroomDevice* device) {
  return of(device).error.c_str();
}

std::int32_t info(HeadroomDevice* device, HeadroomDeviceInfo* info) {
  *info = {};
  std::snprintf(info->name, sizeof info->name, "cpu");
  info->total_bytes = kTotal;
  info->free_bytes = kTotal - of(device).used;
  info->can_compute = 1;
  return 0;
}

std::int32_t memory_info(HeadroomDevice* device, std::int64_t* free_bytes, std::int64_t* total) {
  *free_bytes = kTotal - of(device).used;
  *total = kTotal;
  return 0;
}

std::int32_t host_allocate(HeadroomDevice*, std::int64_t bytes, void** host) {
  const std::size_t size =
      (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  *host = std::aligned_alloc(kAlignment, size);
  return 0;
}

std::int32_t host_free(HeadroomDevice*, void* host) {
  std::free(host);
  return 0;
}

std::int32_t memory_allocate(HeadroomDevice* device, std::int64_t bytes, void** memory) {
  *memory = nullptr;
  if (bytes > kTotal - of(device).used) {
    return 0;
  }
  host_allocate(device, bytes, memory);
  if (*memory != nullptr) {
    of(device).segments[*memory] = bytes;
    of(device).used += bytes;
  }
  return 0;
}

std::int32_t memory_free(HeadroomDevice* device, void* memory) {
  const auto segment = of(device).segments.find(memory);
  if (segment == of(device).segments.end()) {
    return fail(device, "memory was freed that was not allocated");
  }
  of(device).used -= segment->second;
  of(device).segments.erase(segment);
  return host_free(device, memory);
}

std::int32_t copy(HeadroomDevice*, HeadroomStream, void* to, const void* from, std::int64_t bytes,
                  std::int32_t) {
  std::memmove(to, from, static_cast<std::size_t>(bytes));
  return 0;
}

std::int32_t copy_rows(HeadroomDevice*, HeadroomStream, void* to, std::int64_t to_pitch,
                       const void* from, std::int64_t from_pitch, std::int64_t row_bytes,
                       std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                static_cast<const std::byte*>(from) + row * from_pitch,
                static_cast<std::size_t>(row_bytes));
  }
  return 0;
}

std::int32_t clear(HeadroomDevice*, HeadroomStream, void* memory, std::int64_t bytes) {
  if (bytes > 0) {
    std::memset(memory, 0, static_cast<std::size_t>(bytes));
  }
  return 0;
}

std::int32_t stream_create(HeadroomDevice* device, HeadroomStream* stream) {
  *stream = of(device).streams++;
  return 0;
}

std::int32_t event_create(HeadroomDevice* device, HeadroomEvent* event) {
  *event = of(device).events++;
  return 0;
}

/// Work is done when its call returns, so that nobody waits.
template <typename... A>
std::int32_t nothing(HeadroomDevice*, A...) {
  return 0;
}

std::int32_t event_seconds(HeadroomDevice*, HeadroomEvent, HeadroomEvent, double* seconds) {
  *seconds = 0;
  return 0;
}

HeadroomDeviceTable make_table() {
  HeadroomDeviceTable table{};
  table.version = HEADROOM_DEVICE_ABI_VERSION;
  table.size = static_cast<std::int32_t>(sizeof table);
  table.backend = "cpu";
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
  table.stream_synchronize = nothing;
  table.event_create = event_create;
  table.event_destroy = nothing;
  table.event_record = nothing;
  table.event_wait = nothing;
  table.event_seconds = event_seconds;
  add_gemm(table);
  add_fp8(table);
  add_elementwise(table);
  add_data(table);
  add_norm(table);
  add_attention(table);
  add_loss(table);
  add_experts(table);
  add_optimizer(table);
  return table;
}

}  // namespace
}  // namespace cpu

const HeadroomDeviceTable& cpu_backend() {
  static const HeadroomDeviceTable table = cpu::make_table();
  return table;
}

}  // namespace headroom::exec
