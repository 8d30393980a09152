#include "gui/charts/memory_history.h"

#include <algorithm>

#include "costmodel/memory/event_replay.h"

namespace headroom::gui {

MemoryHistory::MemoryHistory(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                             Bytes capacity, const std::stop_token& stop) {
  replay(program, settings, capacity, stop);
  summarise();
  if (!empty()) {
    whole_ = over(0, size());
  }
}

void MemoryHistory::replay(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                           Bytes capacity, const std::stop_token& stop) {
  cost::EventReplay run(program, settings, cost::DeviceMemory{.capacity = capacity});
  const std::size_t count = program.events.size();
  moments_.reserve(count);
  changed_.reserve(count);
  before_.reserve(count / kBucket + 1);
  for (std::size_t event = 0; event < count; ++event) {
    if (event % kBucket == 0) {
      if (stop.stop_requested()) {
        return;
      }
      Roles roles{};
      std::ranges::transform(run.by_role(), roles.begin(), &Bytes::value);
      before_.push_back(roles);
    }
    if (!run.step(event)) {
      return;
    }
    const ir::Event& at = program.events[event];
    changed_.push_back(at.kind == ir::EventKind::kEmptyCache ? at.role : run.slot(at.block).role);
    moments_.push_back({.allocated = run.allocated().value(),
                        .reserved = run.allocator().state().reserved.value()});
  }
}

void MemoryHistory::summarise() {
  std::vector<Summary> level;
  for (std::size_t first = 0; first + kBucket <= size(); first += kBucket) {
    Summary summary = summary_of(first);
    for (std::size_t event = first + 1; event < first + kBucket; ++event) {
      merge(summary, summary_of(event));
    }
    level.push_back(summary);
  }
  while (!level.empty()) {
    std::vector<Summary> next;
    for (std::size_t first = 0; first + kFan <= level.size(); first += kFan) {
      Summary summary = level[first];
      for (std::size_t i = first + 1; i < first + kFan; ++i) {
        merge(summary, level[i]);
      }
      next.push_back(summary);
    }
    summaries_.push_back(std::move(level));
    level = std::move(next);
  }
}

MemoryHistory::Summary MemoryHistory::summary_of(std::size_t event) const {
  const Moment& moment = at(event);
  return {.least = moment.allocated,
          .most = moment.allocated,
          .reserved = moment.reserved,
          .peak = event};
}

void MemoryHistory::merge(Summary& into, const Summary& other) {
  into.least = std::min(into.least, other.least);
  into.reserved = std::max(into.reserved, other.reserved);
  if (other.most > into.most) {
    into.most = other.most;
    into.peak = other.peak;
  }
}

MemoryHistory::Extremes MemoryHistory::over(std::size_t begin, std::size_t end) const {
  Summary found = summary_of(begin);
  std::size_t event = begin;
  while (event < end) {
    std::size_t length = 1;
    Summary part = summary_of(event);
    // The longest summary that begins here and ends within the range.
    std::size_t span = kBucket;
    for (const std::vector<Summary>& level : summaries_) {
      const std::size_t index = event / span;
      if (event % span != 0 || event + span > end || index >= level.size()) {
        break;
      }
      part = level[index];
      length = span;
      span *= kFan;
    }
    merge(found, part);
    event += length;
  }
  return {.least = Bytes{found.least},
          .most = Bytes{found.most},
          .reserved = Bytes{found.reserved},
          .peak = found.peak};
}

cost::RoleBytes MemoryHistory::roles(std::size_t event) const {
  const std::size_t bucket = event / kBucket;
  Roles now = before_[bucket];
  const std::size_t first = bucket * kBucket;
  std::int64_t allocated = first > 0 ? at(first - 1).allocated : 0;
  for (std::size_t i = first; i <= event; ++i) {
    now.at(static_cast<std::size_t>(changed_[i])) += at(i).allocated - allocated;
    allocated = at(i).allocated;
  }
  cost::RoleBytes roles{};
  std::ranges::transform(now, roles.begin(), [](std::int64_t bytes) { return Bytes{bytes}; });
  return roles;
}

}  // namespace headroom::gui
