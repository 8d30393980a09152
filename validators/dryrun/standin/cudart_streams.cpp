// The CUDA runtime: streams, events and graphs.
#include <utility>

#include "validators/dryrun/standin/device.h"
#include "validators/dryrun/standin/last_error.h"
#include "validators/dryrun/standin/streams.h"

namespace headroom::standin {

Status create_stream(Stream* stream) {
  *stream = new_handle();
  return kSuccess;
}

Status create_event(Event* event) {
  Locked gpu;
  *event = gpu->queue.create_event();
  return kSuccess;
}

Status destroy_event(Event event) {
  Locked gpu;
  gpu->queue.destroy_event(event);
  return kSuccess;
}

Status record_event(Event event, Stream stream) {
  Locked gpu;
  return keep_error(gpu->queue.record(event, stream) ? kSuccess : kInvalidHandle);
}

Status query_event(Event event) {
  Locked gpu;
  return keep_error(gpu->queue.complete(event) ? kSuccess : kNotReady);
}

Status synchronize_event(Event event) {
  Locked gpu;
  gpu->queue.synchronize(event);
  return kSuccess;
}

Status synchronize_all() {
  Locked gpu;
  gpu->queue.synchronize();
  return kSuccess;
}

Status query_stream() {
  Locked gpu;
  return keep_error(gpu->queue.idle() ? kSuccess : kNotReady);
}

Status wait_event(Stream stream, Event event) {
  Locked gpu;
  gpu->queue.wait(stream, event);
  return kSuccess;
}

Status event_milliseconds(float* milliseconds, Event from, Event to) {
  Locked gpu;
  *milliseconds = static_cast<float>(gpu->queue.elapsed_milliseconds(from, to));
  return kSuccess;
}

Status begin_capture(Stream stream) {
  constexpr Status kCaptureUnsupported = 900;
  Locked gpu;
  return keep_error(gpu->queue.begin_capture(stream) ? kSuccess : kCaptureUnsupported);
}

Status end_capture(Stream stream, void** graph) {
  constexpr Status kCaptureUnmatched = 903;
  Locked gpu;
  if (!gpu->queue.end_capture(stream)) {
    return keep_error(kCaptureUnmatched);
  }
  if (graph != nullptr) {
    *graph = new_handle();
  }
  return kSuccess;
}

Status exchange_capture_mode(int* mode) {
  thread_local int current = 0;
  std::swap(current, *mode);
  return kSuccess;
}

Status is_capturing(Stream stream, int* status) {
  Locked gpu;
  *status = gpu->queue.capturing(stream) ? 1 : 0;
  return kSuccess;
}

Status capture_info(Stream stream, CaptureInfo info) {
  Locked gpu;
  const bool active = gpu->queue.capturing(stream);
  static void* const graph = new_handle();
  if (info.status != nullptr) {
    *info.status = active ? 1 : 0;
  }
  if (info.number != nullptr) {
    *info.number = active ? gpu->queue.capture_number() : 0;
  }
  if (info.graph != nullptr) {
    *info.graph = active ? graph : nullptr;
  }
  for (const void** pointer : {info.dependencies, info.edges}) {
    if (pointer != nullptr) {
      *pointer = nullptr;
    }
  }
  if (info.count != nullptr) {
    *info.count = 0;
  }
  return kSuccess;
}

}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

Status cudaStreamCreate(Stream* stream) {
  return create_stream(stream);
}
Status cudaStreamCreateWithFlags(Stream* stream, unsigned /*flags*/) {
  return create_stream(stream);
}
Status cudaStreamCreateWithPriority(Stream* stream, unsigned /*flags*/, int /*priority*/) {
  return create_stream(stream);
}
Status cudaStreamGetPriority(Stream /*stream*/, int* priority) {
  *priority = 0;
  return kSuccess;
}
Status cudaStreamGetFlags(Stream /*stream*/, unsigned* flags) {
  *flags = 0;
  return kSuccess;
}
Status cudaStreamGetId(Stream stream, unsigned long long* id) {
  *id = reinterpret_cast<std::uintptr_t>(stream);
  return kSuccess;
}
Status cudaStreamQuery(Stream /*stream*/) {
  return query_stream();
}
Status cudaStreamSynchronize(Stream /*stream*/) {
  return synchronize_all();
}
Status cudaDeviceSynchronize() {
  return synchronize_all();
}
Status cudaStreamWaitEvent(Stream stream, Event event, unsigned /*flags*/) {
  return wait_event(stream, event);
}
Status cudaLaunchHostFunc(Stream /*stream*/, HostFunction function, void* data) {
  function(data);
  return kSuccess;
}
Status cudaStreamAddCallback(Stream stream, StreamCallback function, void* data,
                             unsigned /*flags*/) {
  function(stream, kSuccess, data);
  return kSuccess;
}

Status cudaEventCreate(Event* event) {
  return create_event(event);
}
Status cudaEventCreateWithFlags(Event* event, unsigned /*flags*/) {
  return create_event(event);
}
Status cudaEventDestroy(Event event) {
  return destroy_event(event);
}
Status cudaEventRecord(Event event, Stream stream) {
  return record_event(event, stream);
}
Status cudaEventRecordWithFlags(Event event, Stream stream, unsigned /*flags*/) {
  return record_event(event, stream);
}
Status cudaEventQuery(Event event) {
  return query_event(event);
}
Status cudaEventSynchronize(Event event) {
  return synchronize_event(event);
}
Status cudaEventElapsedTime(float* milliseconds, Event from, Event to) {
  return event_milliseconds(milliseconds, from, to);
}
Status cudaEventElapsedTime_v2(float* milliseconds, Event from, Event to) {
  return event_milliseconds(milliseconds, from, to);
}

Status cudaStreamBeginCapture(Stream stream, int /*mode*/) {
  return begin_capture(stream);
}
Status cudaStreamBeginCaptureToGraph(Stream stream, void* /*graph*/, const void* /*dependencies*/,
                                     const void* /*edges*/, std::size_t /*count*/, int /*mode*/) {
  return begin_capture(stream);
}
Status cudaStreamEndCapture(Stream stream, void** graph) {
  return end_capture(stream, graph);
}
Status cudaThreadExchangeStreamCaptureMode(int* mode) {
  return exchange_capture_mode(mode);
}
// The graph's one node depends on nothing.
Status cudaGraphNodeGetDependencies(void* /*node*/, void** /*dependencies*/, std::size_t* count) {
  *count = 0;
  return kSuccess;
}
Status cudaGraphNodeGetDependencies_v2(void* node, void** dependencies, void* /*edges*/,
                                       std::size_t* count) {
  return cudaGraphNodeGetDependencies(node, dependencies, count);
}
Status cudaStreamIsCapturing(Stream stream, int* status) {
  return is_capturing(stream, status);
}
Status cudaStreamGetCaptureInfo_v2(Stream stream, int* status, unsigned long long* number,
                                   void** graph, const void** dependencies, std::size_t* count) {
  return capture_info(stream, {status, number, graph, dependencies, nullptr, count});
}
Status cudaStreamGetCaptureInfo_v3(Stream stream, int* status, unsigned long long* number,
                                   void** graph, const void** dependencies, const void** edges,
                                   std::size_t* count) {
  return capture_info(stream, {status, number, graph, dependencies, edges, count});
}
Status cudaGraphInstantiate(void** executable, void* /*graph*/, unsigned long long /*flags*/) {
  *executable = new_handle();
  return kSuccess;
}
Status cudaGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}
// PyTorch warns of an empty graph when there is no node.
Status cudaGraphGetNodes(void* /*graph*/, void** nodes, std::size_t* count) {
  if (nodes != nullptr && *count > 0) {
    *nodes = new_handle();
  }
  *count = 1;
  return kSuccess;
}
}
