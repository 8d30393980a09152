// Checks of memory, streams, events and matrix products.
#include <algorithm>
#include <memory>

#include "tests/support/backends/call_check.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

std::int32_t open(const HeadroomOpen* how, HeadroomDevice** device, char* message,
                  std::int64_t message_size) {
  auto made = std::make_unique<CheckedDevice>();
  const std::int32_t code = inner_table().open(how, &made->inner, message, message_size);
  *device = code == 0 ? reinterpret_cast<HeadroomDevice*>(made.release()) : nullptr;
  return code;
}
void close(HeadroomDevice* device) {
  const std::unique_ptr<CheckedDevice> owned(&checked(device));
  inner_table().close(owned->inner);
}
const char* last_error(HeadroomDevice* device) {
  const CheckedDevice& d = checked(device);
  return d.error.empty() ? inner_table().last_error(d.inner) : d.error.c_str();
}
std::int32_t info(HeadroomDevice* d, HeadroomDeviceInfo* info) {
  return inner_table().info(checked(d).inner, info);
}
std::int32_t memory_info(HeadroomDevice* d, std::int64_t* free_bytes, std::int64_t* total) {
  return inner_table().memory_info(checked(d).inner, free_bytes, total);
}

std::int32_t memory_allocate(HeadroomDevice* d, std::int64_t bytes, void** memory) {
  const std::int32_t code = inner_table().memory_allocate(checked(d).inner, bytes, memory);
  if (code == 0 && *memory != nullptr) {
    checked(d).memory[static_cast<std::byte*>(*memory)] = bytes;
  }
  return code;
}
std::int32_t memory_free(HeadroomDevice* d, void* memory) {
  const auto erased = checked(d).memory.erase(static_cast<std::byte*>(memory));
  return CallCheck(d, "memory_free", 0)
      .requires_that(erased == 1, "frees what was not allocated")
      .run(&Table::memory_free, memory);
}
std::int32_t host_allocate(HeadroomDevice* d, std::int64_t bytes, void** host) {
  const std::int32_t code = inner_table().host_allocate(checked(d).inner, bytes, host);
  if (code == 0 && *host != nullptr) {
    checked(d).host[static_cast<std::byte*>(*host)] = bytes;
  }
  return code;
}
std::int32_t host_free(HeadroomDevice* d, void* host) {
  checked(d).host.erase(static_cast<std::byte*>(host));
  return inner_table().host_free(checked(d).inner, host);
}

std::int32_t copy(HeadroomDevice* d, HeadroomStream stream, void* to, const void* from,
                  std::int64_t bytes, std::int32_t kind) {
  CallCheck check(d, "copy", stream);
  counted_calls().copies += 1;
  if (kind == HEADROOM_DEVICE_TO_HOST) {
    check.uses_host(to, bytes);
  } else {
    check.uses(to, bytes, HEADROOM_UINT8);
  }
  if (kind == HEADROOM_HOST_TO_DEVICE) {
    check.uses_host(from, bytes);
  } else {
    check.uses(from, bytes, HEADROOM_UINT8);
  }
  return check.run(&Table::copy, stream, to, from, bytes, kind);
}
std::int32_t copy_rows(HeadroomDevice* d, HeadroomStream stream, void* to, std::int64_t to_pitch,
                       const void* from, std::int64_t from_pitch, std::int64_t row_bytes,
                       std::int64_t rows) {
  counted_calls().copies += 1;
  return CallCheck(d, "copy_rows", stream)
      .rows(to, rows, to_pitch, row_bytes, HEADROOM_UINT8)
      .rows(from, rows, from_pitch, row_bytes, HEADROOM_UINT8)
      .run(&Table::copy_rows, stream, to, to_pitch, from, from_pitch, row_bytes, rows);
}
std::int32_t clear(HeadroomDevice* d, HeadroomStream stream, void* memory, std::int64_t bytes) {
  return CallCheck(d, "clear", stream)
      .uses(memory, bytes, HEADROOM_UINT8)
      .run(&Table::clear, stream, memory, bytes);
}

std::int32_t stream_create(HeadroomDevice* d, HeadroomStream* stream) {
  checked(d).streams += 1;
  return inner_table().stream_create(checked(d).inner, stream);
}
std::int32_t stream_synchronize(HeadroomDevice* d, HeadroomStream stream) {
  return CallCheck(d, "stream_synchronize", stream).run(&Table::stream_synchronize, stream);
}
std::int32_t event_create(HeadroomDevice* d, HeadroomEvent* event) {
  const std::int32_t code = inner_table().event_create(checked(d).inner, event);
  checked(d).events[*event] = false;
  return code;
}
std::int32_t event_destroy(HeadroomDevice* d, HeadroomEvent event) {
  return CallCheck(d, "event_destroy", 0)
      .requires_that(checked(d).events.erase(event) == 1, "destroys an event that there is not")
      .run(&Table::event_destroy, event);
}
std::int32_t event_record(HeadroomDevice* d, HeadroomEvent event, HeadroomStream stream) {
  const auto found = checked(d).events.find(event);
  CallCheck check(d, "event_record", stream);
  check.requires_that(found != checked(d).events.end(), "records an event that there is not");
  if (found != checked(d).events.end()) {
    found->second = true;
  }
  return check.run(&Table::event_record, event, stream);
}
bool is_recorded(HeadroomDevice* d, HeadroomEvent event) {
  const auto found = checked(d).events.find(event);
  return found != checked(d).events.end() && found->second;
}
std::int32_t event_wait(HeadroomDevice* d, HeadroomEvent event, HeadroomStream stream) {
  return CallCheck(d, "event_wait", stream)
      .requires_that(is_recorded(d, event), "waits for an event that nobody has recorded")
      .run(&Table::event_wait, event, stream);
}
std::int32_t event_seconds(HeadroomDevice* d, HeadroomEvent begin, HeadroomEvent end,
                           double* seconds) {
  return CallCheck(d, "event_seconds", 0)
      .requires_that(is_recorded(d, begin) && is_recorded(d, end), "reads an unrecorded event")
      .run(&Table::event_seconds, begin, end, seconds);
}

/// Elements from the first to the last of all matrices of a nested batch.
struct Operand {
  const void* data;
  std::int64_t rows, row, columns, outer, inner;
  std::int32_t type;
};
void uses_matrices(CallCheck& check, const HeadroomGemm& g, const Operand& x) {
  check.rows(x.data, x.rows, x.row, x.columns, x.type);
  const std::int64_t last = (g.outer - 1) * x.outer + (g.inner - 1) * x.inner;
  check.uses(x.data, last + (x.rows - 1) * x.row + x.columns, x.type);
}

std::int32_t gemm(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm* gemm) {
  const HeadroomGemm& g = *gemm;
  CallCheck check(d, "gemm", stream);
  check.kernel();
  if (g.m > 0 && g.n > 0 && g.k > 0) {
    const bool ta = g.transpose_a != 0;
    const bool tb = g.transpose_b != 0;
    uses_matrices(check, g,
                  {.data = g.a,
                   .rows = ta ? g.k : g.m,
                   .row = g.a_row,
                   .columns = ta ? g.m : g.k,
                   .outer = g.a_outer,
                   .inner = g.a_inner,
                   .type = g.type});
    uses_matrices(check, g,
                  {.data = g.b,
                   .rows = tb ? g.n : g.k,
                   .row = g.b_row,
                   .columns = tb ? g.k : g.n,
                   .outer = g.b_outer,
                   .inner = g.b_inner,
                   .type = g.type});
    uses_matrices(check, g,
                  {.data = g.c,
                   .rows = g.m,
                   .row = g.c_row,
                   .columns = g.n,
                   .outer = g.c_outer,
                   .inner = g.c_inner,
                   .type = g.output_type});
  }
  if (g.type == HEADROOM_FP8) {
    check.uses(g.a_scale, 1, stat_of(g.output_type)).uses(g.b_scale, 1, stat_of(g.output_type));
    check.requires_that(g.transpose_a == 0 && g.transpose_b != 0 && g.k % 16 == 0 &&
                            g.a_row % 16 == 0 && g.b_row % 16 == 0,
                        "multiplies 8 bits whose inner dimensions are not contiguous and even");
  }
  return check.run(&Table::gemm, stream, gemm);
}

std::int32_t gemm_grouped(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm* gemm,
                          const std::int64_t* host_offsets, std::int64_t groups,
                          std::int32_t rows_inside) {
  const HeadroomGemm& g = *gemm;
  CallCheck check(d, "gemm_grouped", stream);
  check.kernel().requires_that(std::is_sorted(host_offsets, host_offsets + groups + 1),
                               "has offsets that fall");
  const std::int64_t rows = host_offsets[groups];
  if (rows_inside != 0) {
    check.rows(g.a, rows, g.a_row, g.m, g.type).rows(g.b, rows, g.b_row, g.n, g.type);
    check.uses(g.c, (groups - 1) * g.c_outer + (g.m - 1) * g.c_row + g.n, g.output_type);
  } else {
    const bool tb = g.transpose_b != 0;
    check.rows(g.a, rows, g.a_row, g.k, g.type).rows(g.c, rows, g.c_row, g.n, g.output_type);
    check.uses(g.b, (groups - 1) * g.b_outer + ((tb ? g.n : g.k) - 1) * g.b_row + (tb ? g.k : g.n),
               g.type);
  }
  return check.run(&Table::gemm_grouped, stream, gemm, host_offsets, groups, rows_inside);
}

}  // namespace

void check_memory(HeadroomDeviceTable& table) {
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
  table.gemm = gemm;
  table.gemm_grouped = gemm_grouped;
}

}  // namespace headroom::test
