#include "validators/executor/recording_backend.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "validators/executor/context.h"

namespace headroom::exec {
namespace {

/// What a handle points to: the host memory that small results are read through.
struct RecordingDevice {
  std::array<std::byte, kHostScratchBytes> scratch{};
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
  table.copy = nothing;
  table.copy_rows = nothing;
  table.clear = nothing;
  table.stream_create = nothing;
  table.stream_synchronize = nothing;
  table.event_create = nothing;
  table.event_destroy = nothing;
  table.event_record = nothing;
  table.event_wait = nothing;
  table.event_seconds = nothing;
  table.gemm = nothing;
  table.gemm_grouped = nothing;
  table.fill = nothing;
  table.random_normal = nothing;
  table.random_tokens = nothing;
  table.cast = nothing;
  table.add = nothing;
  table.accumulate = nothing;
  table.scale = nothing;
  table.add_bias = nothing;
  table.column_sum = nothing;
  table.activation = nothing;
  table.activation_backward = nothing;
  table.gated = nothing;
  table.gated_backward = nothing;
  table.embedding = nothing;
  table.embedding_backward = nothing;
  table.add_positions = nothing;
  table.add_positions_backward = nothing;
  table.norm = nothing;
  table.norm_backward = nothing;
  table.rope_table = nothing;
  table.rope = nothing;
  table.attention = nothing;
  table.attention_backward = nothing;
  table.causal_softmax = nothing;
  table.softmax_backward = nothing;
  table.logit_statistics = nothing;
  table.rescale_sums = nothing;
  table.cross_entropy_loss = nothing;
  table.cross_entropy_backward = nothing;
  table.route = nothing;
  table.route_backward = nothing;
  table.sort_by_expert = nothing;
  table.gather_rows = nothing;
  table.gather_rows_backward = nothing;
  table.combine_rows = nothing;
  table.combine_rows_backward = nothing;
  table.square_sum = nothing;
  table.gradient_factor = nothing;
  table.adamw = nothing;
  table.adamw_8bit = nothing;
  return table;
}

}  // namespace

const HeadroomDeviceTable& recording_backend() {
  static const HeadroomDeviceTable table = make_table();
  return table;
}

}  // namespace headroom::exec
