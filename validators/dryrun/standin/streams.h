#pragma once

#include <cstddef>

#include "validators/dryrun/standin/cuda_abi.h"

/// Streams, events and captures, which the runtime and the driver answer alike.
namespace headroom::standin {

Status create_stream(Stream* stream);
Status query_stream();
Status synchronize_all();
Status wait_event(Stream stream, Event event);

Status create_event(Event* event);
Status destroy_event(Event event);
Status record_event(Event event, Stream stream);
Status query_event(Event event);
Status synchronize_event(Event event);
Status event_milliseconds(float* milliseconds, Event from, Event to);

/// Where the answers of ...GetCaptureInfo go; null: not asked for.
struct CaptureInfo {
  int* status = nullptr;
  unsigned long long* number = nullptr;
  void** graph = nullptr;
  const void** dependencies = nullptr;
  const void** edges = nullptr;
  std::size_t* count = nullptr;
};
Status begin_capture(Stream stream);
Status end_capture(Stream stream, void** graph);
/// Calls `function` at once, as everything before it is done; in a capture, at each launch of the
/// graph.
Status call_host(Stream stream, HostFunction function, void* data);
Status instantiate_graph(void** executable, void* graph);
Status launch_graph(void* executable);
Status forget_graph(void* graph);
/// Swaps the calling thread's capture mode with `*mode`.
Status exchange_capture_mode(int* mode);
Status is_capturing(Stream stream, int* status);
Status capture_info(Stream stream, CaptureInfo info);

}  // namespace headroom::standin
