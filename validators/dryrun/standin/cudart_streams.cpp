// The CUDA runtime: streams, events and graphs.
#include <optional>
#include <unordered_map>
#include <utility>

#include "validators/dryrun/standin/device.h"
#include "validators/dryrun/standin/kernels.h"
#include "validators/dryrun/standin/last_error.h"
#include "validators/dryrun/standin/streams.h"

namespace headroom::standin {
namespace {

/// The host calls of graphs and their executables; those that call nothing are not listed.
std::unordered_map<void*, Queue::HostCalls>& graph_calls() {
  static auto* const table = new std::unordered_map<void*, Queue::HostCalls>;
  return *table;
}

/// The graph of a running capture. No pointer has such a number.
void* graph_of(std::uint64_t capture) {
  return reinterpret_cast<void*>((capture << 4) | 2);
}

}  // namespace

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
  void* const handle = graph_of(gpu->queue.capture_of(stream));
  std::optional<Queue::HostCalls> calls = gpu->queue.end_capture(stream);
  if (!calls) {
    return keep_error(kCaptureUnmatched);
  }
  if (!calls->empty()) {
    graph_calls()[handle] = std::move(*calls);
  }
  if (graph != nullptr) {
    *graph = handle;
  }
  return kSuccess;
}

Status call_host(Stream stream, HostFunction function, void* data) {
  {
    Locked gpu;
    if (gpu->queue.capturing(stream)) {
      gpu->queue.capture_call(stream, {function, data});
      return kSuccess;
    }
  }
  function(data);
  return kSuccess;
}

Status instantiate_graph(void** executable, void* graph) {
  Locked gpu;
  *executable = new_handle();
  if (const auto found = graph_calls().find(graph); found != graph_calls().end()) {
    const Queue::HostCalls calls = found->second;
    graph_calls()[*executable] = calls;
  }
  return kSuccess;
}

Status launch_graph(void* executable) {
  launch_kernel(nullptr, nullptr);
  Queue::HostCalls calls;
  {
    Locked gpu;
    const auto found = graph_calls().find(executable);
    calls = found == graph_calls().end() ? calls : found->second;
  }
  for (const Queue::HostCall& call : calls) {
    call.function(call.data);
  }
  return kSuccess;
}

Status forget_graph(void* graph) {
  Locked gpu;
  graph_calls().erase(graph);
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
  const std::uint64_t capture = gpu->queue.capture_of(stream);
  const bool active = capture != 0;
  if (info.status != nullptr) {
    *info.status = active ? 1 : 0;
  }
  if (info.number != nullptr) {
    *info.number = capture;
  }
  if (info.graph != nullptr) {
    *info.graph = active ? graph_of(capture) : nullptr;
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
Status cudaLaunchHostFunc(Stream stream, HostFunction function, void* data) {
  return call_host(stream, function, data);
}
Status cuLaunchHostFunc(Stream stream, HostFunction function, void* data) {
  return call_host(stream, function, data);
}
Status cudaStreamAddCallback(Stream stream, StreamCallback function, void* data,
                             unsigned /*flags*/) {
  constexpr Status kCaptureUnsupported = 900;
  int capturing = 0;
  is_capturing(stream, &capturing);
  if (capturing != 0) {
    return keep_error(kCaptureUnsupported);
  }
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
Status cudaGraphInstantiate(void** executable, void* graph, unsigned long long /*flags*/) {
  return instantiate_graph(executable, graph);
}
Status cudaGraphLaunch(void* executable, Stream /*stream*/) {
  return launch_graph(executable);
}
Status cudaGraphDestroy(void* graph) {
  return forget_graph(graph);
}
Status cudaGraphExecDestroy(void* executable) {
  return forget_graph(executable);
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
