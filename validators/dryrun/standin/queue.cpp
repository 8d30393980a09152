#include "validators/dryrun/standin/queue.h"

#include <algorithm>
#include <utility>

namespace headroom::standin {

Event Queue::create_event() {
  // Handles are numbers that no pointer has.
  Event event = reinterpret_cast<Event>((++last_event_ << 4) | 1);
  events_[event];
  return event;
}

bool Queue::record(Event event, Stream stream) {
  const auto found = events_.find(event);
  if (found == events_.end()) {
    return false;
  }
  launch();
  found->second = {launched_, capture_of(stream), std::chrono::steady_clock::now()};
  return true;
}

bool Queue::complete(Event event) const {
  const auto found = events_.find(event);
  if (lag_ == 0 || found == events_.end()) {
    return true;
  }
  const std::uint64_t number = found->second.launched;
  return number <= finished_ || launched_ - number >= lag_;
}

void Queue::synchronize(Event event) {
  if (const auto found = events_.find(event); found != events_.end()) {
    finished_ = std::max(finished_, found->second.launched);
  }
}

double Queue::elapsed_milliseconds(Event from, Event to) const {
  const auto first = events_.find(from);
  const auto last = events_.find(to);
  if (first == events_.end() || last == events_.end()) {
    return 0.001;
  }
  if (launch_microseconds_ > 0) {
    // The second record is a launch itself.
    const std::uint64_t records = first->second.launched + 1;
    const std::uint64_t launches = std::max(last->second.launched, records) - records;
    return std::max(0.001, 1e-3 * static_cast<double>(launches * launch_microseconds_));
  }
  const std::chrono::duration<double, std::milli> passed = last->second.when - first->second.when;
  return std::max(0.001, passed.count());
}

bool Queue::begin_capture(Stream stream) {
  if (capturing(stream)) {
    return false;
  }
  captures_[++last_capture_].origin = stream;
  captured_[stream] = last_capture_;
  return true;
}

std::optional<Queue::HostCalls> Queue::end_capture(Stream stream) {
  const auto ended = captures_.find(capture_of(stream));
  if (ended == captures_.end() || ended->second.origin != stream) {
    return std::nullopt;
  }
  HostCalls calls = std::move(ended->second.calls);
  std::erase_if(captured_, [&ended](const auto& part) { return part.second == ended->first; });
  captures_.erase(ended);
  return calls;
}

void Queue::wait(Stream stream, Event event) {
  const auto found = events_.find(event);
  if (found != events_.end() && captures_.contains(found->second.capture)) {
    captured_[stream] = found->second.capture;
  }
}

std::uint64_t Queue::capture_of(Stream stream) const {
  const auto found = captured_.find(stream);
  return found == captured_.end() ? 0 : found->second;
}

}  // namespace headroom::standin
