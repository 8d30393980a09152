#include "validators/executor/recording_backend.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "model_ir/base/check.h"
#include "validators/executor/context.h"
#include "validators/executor/device.h"
#include "validators/executor/memory.h"
#include "validators/executor/recorded_kernels.h"

namespace headroom::exec {
namespace {

/// The object behind a handle, with the host memory that small results are read through.
struct RecordingDevice {
  std::array<std::byte, kHostScratchBytes> scratch{};
  Memory* memory = nullptr;          ///< Memory whose program gets the work.
  std::vector<std::uint32_t> marks;  ///< Mark that each event stands for.
};

RecordingDevice& recorder(HeadroomDevice* handle) {
  return *reinterpret_cast<RecordingDevice*>(handle);
}

template <typename... A>
std::int32_t nothing(HeadroomDevice*, A...) {
  return 0;
}

std::int32_t open(const HeadroomOpen*, HeadroomDevice** device, char*, std::int64_t) {
  *device = reinterpret_cast<HeadroomDevice*>(std::make_unique<RecordingDevice>().release());
  return 0;
}

void close(HeadroomDevice* device) {
  const std::unique_ptr<RecordingDevice> owned(&recorder(device));
}

const char* last_error(HeadroomDevice*) {
  return "";
}

std::int32_t info(HeadroomDevice*, HeadroomDeviceInfo* info) {
  *info = {};
  std::snprintf(info->name, sizeof info->name, "recording");
  info->total_bytes = std::numeric_limits<std::int64_t>::max();
  info->free_bytes = info->total_bytes;
  return 0;
}

/// Large host blocks are never read, because no copy happens; only what comes back to the host
/// through the scratch is.
std::int32_t host_allocate(HeadroomDevice* device, std::int64_t, void** host) {
  *host = recorder(device).scratch.data();
  return 0;
}

std::int32_t stream_create(HeadroomDevice* device, HeadroomStream* stream) {
  Memory* const memory = recorder(device).memory;
  *stream = memory != nullptr ? memory->new_stream("copy") : 1;
  return 0;
}

std::int32_t event_create(HeadroomDevice* device, HeadroomEvent* event) {
  std::vector<std::uint32_t>& marks = recorder(device).marks;
  *event = static_cast<HeadroomEvent>(marks.size());
  marks.push_back(0);
  return 0;
}

std::int32_t event_record(HeadroomDevice* device, HeadroomEvent event, HeadroomStream stream) {
  RecordingDevice& self = recorder(device);
  if (self.memory != nullptr) {
    const std::uint32_t mark = self.memory->new_mark();
    self.marks[static_cast<std::size_t>(event)] = mark;
    self.memory->add_mark(ir::WorkItem::Kind::kRecord, static_cast<std::uint8_t>(stream), mark);
  }
  return 0;
}

std::int32_t event_wait(HeadroomDevice* device, HeadroomEvent event, HeadroomStream stream) {
  RecordingDevice& self = recorder(device);
  if (self.memory != nullptr) {
    self.memory->add_mark(ir::WorkItem::Kind::kWait, static_cast<std::uint8_t>(stream),
                          self.marks[static_cast<std::size_t>(event)]);
  }
  return 0;
}

std::int32_t stream_synchronize(HeadroomDevice* device, HeadroomStream stream) {
  if (Memory* const memory = recorder(device).memory) {
    const std::uint32_t mark = memory->new_mark();
    memory->add_mark(ir::WorkItem::Kind::kRecord, static_cast<std::uint8_t>(stream), mark);
    memory->add_mark(ir::WorkItem::Kind::kHost, static_cast<std::uint8_t>(stream), mark);
  }
  return 0;
}

HeadroomDeviceTable make_table() {
  HeadroomDeviceTable table{};
  table.version = HEADROOM_DEVICE_ABI_VERSION;
  table.size = static_cast<std::int32_t>(sizeof table);
  table.backend = "recording";
  table.open = open;
  table.close = close;
  table.last_error = last_error;
  table.info = info;
  table.memory_info = nothing;
  table.memory_allocate = nothing;
  table.memory_free = nothing;
  table.host_allocate = host_allocate;
  table.host_free = nothing;
  table.copy_rows = nothing;
  table.stream_create = stream_create;
  table.stream_synchronize = stream_synchronize;
  table.event_create = event_create;
  table.event_destroy = nothing;
  table.event_record = event_record;
  table.event_wait = event_wait;
  table.event_seconds = nothing;
  table.fill = nothing;
  table.random_normal = nothing;
  table.random_tokens = nothing;
  table.rope_table = nothing;
  table.rescale_sums = nothing;
  table.cross_entropy_loss = nothing;
  table.route = nothing;
  table.route_backward = nothing;
  table.sort_by_expert = nothing;
  table.gradient_factor = nothing;
  add_recorded_kernels(table);
  return table;
}

}  // namespace

Memory* recorded_memory(HeadroomDevice* device) {
  return recorder(device).memory;
}

void record_work(Device& device, Memory& memory) {
  HEADROOM_ASSERT(&device.table() == &recording_backend());
  recorder(device.handle()).memory = &memory;
}

const HeadroomDeviceTable& recording_backend() {
  static const HeadroomDeviceTable table = make_table();
  return table;
}

}  // namespace headroom::exec
