#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>

#include "validators/dryrun/standin/cuda_abi.h"

namespace headroom::standin {

/// The order of work on the device: launches are numbered, and a lagging device has finished all
/// but the last `lag` of them. Not safe for threads; the caller holds the device's lock.
class Queue {
 public:
  explicit Queue(std::uint64_t lag) : lag_(lag) {}

  void launch() { ++launched_; }
  void synchronize() { finished_ = launched_; }
  [[nodiscard]] bool idle() const { return lag_ == 0 || finished_ == launched_; }

  Event create_event();
  void destroy_event(Event event) { events_.erase(event); }
  bool record(Event event, Stream stream);
  /// Whether everything before the record is done; an event that was never recorded is.
  [[nodiscard]] bool complete(Event event) const;
  void synchronize(Event event);
  [[nodiscard]] bool knows(Event event) const { return events_.contains(event); }
  /// Milliseconds of the host's clock between two records, at least a microsecond.
  [[nodiscard]] double elapsed_milliseconds(Event from, Event to) const;

  /// Capture of a CUDA graph: `stream`, and every stream that waits for an event recorded in the
  /// capture, report that they are capturing until the end.
  bool begin_capture(Stream stream);
  bool end_capture(Stream stream);
  void wait(Stream stream, Event event);
  [[nodiscard]] bool capturing(Stream stream) const { return captured_.contains(stream); }
  [[nodiscard]] std::uint64_t capture_number() const { return capture_; }

 private:
  struct Record {
    std::uint64_t launched = 0;
    std::uint64_t capture = 0;  ///< Within which it was recorded; 0: none.
    std::chrono::steady_clock::time_point when;
  };
  std::uint64_t lag_;
  std::uint64_t launched_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t last_event_ = 0;
  std::map<Event, Record> events_;
  std::uint64_t capture_ = 0;
  std::set<Stream> captured_;
};

}  // namespace headroom::standin
