#include "validators/dryrun/standin/queue.h"

#include <algorithm>

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
  found->second = {launched_, capturing(stream) ? capture_ : 0, std::chrono::steady_clock::now()};
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
  const std::chrono::duration<double, std::milli> passed = last->second.when - first->second.when;
  return std::max(0.001, passed.count());
}

bool Queue::begin_capture(Stream stream) {
  if (!captured_.empty()) {
    return false;
  }
  ++capture_;
  captured_ = {stream};
  return true;
}

bool Queue::end_capture(Stream stream) {
  if (!capturing(stream)) {
    return false;
  }
  captured_.clear();
  return true;
}

void Queue::wait(Stream stream, Event event) {
  const auto found = events_.find(event);
  if (!captured_.empty() && found != events_.end() && found->second.capture == capture_) {
    captured_.insert(stream);
  }
}

}  // namespace headroom::standin
