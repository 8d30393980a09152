#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "validators/dryrun/standin/cuda_abi.h"

namespace headroom::standin {

/// The order of work on the device: launches are numbered, and a lagging device has finished all
/// but the last `lag` of them. Not safe for threads; the caller holds the device's lock.
class Queue {
 public:
  /// @param launch_microseconds  Time that events say each launch takes; 0: the host's clock.
  Queue(std::uint64_t lag, std::uint64_t launch_microseconds)
      : lag_(lag), launch_microseconds_(launch_microseconds) {}

  void launch() { ++launched_; }
  /// A copy takes as much time as a launch where tests say how much that is; nothing lags for it.
  void copy() { launched_ += launch_microseconds_ > 0 ? 1 : 0; }
  void synchronize() { finished_ = launched_; }
  [[nodiscard]] bool idle() const { return lag_ == 0 || finished_ == launched_; }

  Event create_event();
  void destroy_event(Event event) { events_.erase(event); }
  bool record(Event event, Stream stream);
  /// Whether everything before the record is done; an event that was never recorded is.
  [[nodiscard]] bool complete(Event event) const;
  void synchronize(Event event);
  [[nodiscard]] bool knows(Event event) const { return events_.contains(event); }
  /// Milliseconds between two records, at least a microsecond: of the host's clock, or what the
  /// launches between them take.
  [[nodiscard]] double elapsed_milliseconds(Event from, Event to) const;

  /// A function of the host that a graph calls when it is launched.
  struct HostCall {
    HostFunction function;
    void* data;
  };
  using HostCalls = std::vector<HostCall>;

  /// Capture of a CUDA graph: `stream`, and every stream that waits for an event recorded in the
  /// capture, report that they are capturing until the end. Several may run at once.
  bool begin_capture(Stream stream);
  /// The calls of the graph; nothing: no capture began on this stream.
  std::optional<HostCalls> end_capture(Stream stream);
  void wait(Stream stream, Event event);
  /// The number of the capture that a stream is part of; 0: none.
  [[nodiscard]] std::uint64_t capture_of(Stream stream) const;
  [[nodiscard]] bool capturing(Stream stream) const { return capture_of(stream) != 0; }
  /// Adds a call to the capture that `stream` is part of. Requires that it is capturing.
  void capture_call(Stream stream, HostCall call) {
    captures_.at(capture_of(stream)).calls.push_back(call);
  }

 private:
  struct Record {
    std::uint64_t launched = 0;
    std::uint64_t capture = 0;  ///< Within which it was recorded; 0: none.
    std::chrono::steady_clock::time_point when;
  };
  std::uint64_t lag_;
  std::uint64_t launch_microseconds_;
  std::uint64_t launched_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t last_event_ = 0;
  std::map<Event, Record> events_;
  struct Capture {
    Stream origin = nullptr;
    HostCalls calls;
  };
  std::uint64_t last_capture_ = 0;
  std::map<std::uint64_t, Capture> captures_;  ///< Captures by their number.
  std::map<Stream, std::uint64_t> captured_;   ///< Streams, and the capture that each is part of.
};

}  // namespace headroom::standin
