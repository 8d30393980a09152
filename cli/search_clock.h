#pragma once

#include <atomic>
#include <chrono>
#include <optional>

#include "model_ir/base/units.h"
#include "planner/search/stop_signal.h"

namespace headroom::cli {

/// The time that `--time-limit` leaves, divided among searches that run one after the other.
class SearchClock {
 public:
  using Clock = std::chrono::steady_clock;

  /// Keeps a reference to `stop`, which is set when the user wants the searches to end. Without a
  /// limit, nothing else ends them.
  SearchClock(std::optional<Seconds> limit, const std::atomic<bool>& stop) : stop_(stop) {
    if (limit) {
      end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(limit->value()));
    }
  }

  /// Ends a search when the user asks, or after this share of the time that is left.
  [[nodiscard]] plan::StopSignal within(double share) const {
    plan::StopSignal stop{.flag = &stop_, .deadline = std::nullopt};
    if (end_) {
      const Clock::time_point now = Clock::now();
      stop.deadline = now + std::chrono::duration_cast<Clock::duration>((*end_ - now) * share);
    }
    return stop;
  }

  /// Seconds until the time is over.
  [[nodiscard]] std::optional<double> left() const {
    return end_ ? std::optional(std::chrono::duration<double>(*end_ - Clock::now()).count())
                : std::nullopt;
  }

 private:
  const std::atomic<bool>& stop_;
  std::optional<Clock::time_point> end_;
};

}  // namespace headroom::cli
