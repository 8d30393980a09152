#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "costmodel/memory/allocator_state.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::gui {

/// The memory of a rank after each event of its program, with summaries of ever longer runs of
/// events. A chart reads one range per pixel off the summaries, so that the cost of a frame does
/// not depend on the number of events.
///
///   events        |................|................|................|................|
///   summaries     |-- kBucket -----|-- kBucket -----|-- kBucket -----|-- kBucket -----|
///                 |------------------ kFan * kBucket ----------------------------------| ...
class MemoryHistory {
 public:
  MemoryHistory() = default;
  /// Replays `program` on a device of `capacity` bytes, up to the event that runs out of memory or
  /// to the moment when `stop` is requested.
  MemoryHistory(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                Bytes capacity, const std::stop_token& stop = {});

  /// The number of events.
  [[nodiscard]] std::size_t size() const { return moments_.size(); }
  [[nodiscard]] bool empty() const { return moments_.empty(); }

  /// Live bytes and segment bytes after event `event`.
  [[nodiscard]] Bytes allocated(std::size_t event) const { return Bytes{at(event).allocated}; }
  [[nodiscard]] Bytes reserved(std::size_t event) const { return Bytes{at(event).reserved}; }
  /// Live bytes by role after event `event`.
  [[nodiscard]] cost::RoleBytes roles(std::size_t event) const;

  /// The extremes of a range of events.
  struct Extremes {
    Bytes least;           ///< Least allocated.
    Bytes most;            ///< Most allocated.
    Bytes reserved;        ///< Most reserved.
    std::size_t peak = 0;  ///< The first event with `most`.
  };
  /// The extremes of the events in [begin, end). Requires begin < end <= size().
  [[nodiscard]] Extremes over(std::size_t begin, std::size_t end) const;
  /// The extremes of all events. Requires a history that is not empty.
  [[nodiscard]] const Extremes& whole() const { return whole_; }

 private:
  static constexpr std::size_t kBucket = 64;
  static constexpr std::size_t kFan = 4;

  struct Moment {
    std::int64_t allocated = 0;
    std::int64_t reserved = 0;
  };
  struct Summary {
    std::int64_t least = 0;
    std::int64_t most = 0;
    std::int64_t reserved = 0;
    std::size_t peak = 0;
  };
  using Roles = std::array<std::int64_t, ir::kTensorRoleCount>;

  [[nodiscard]] const Moment& at(std::size_t event) const { return moments_[event]; }
  [[nodiscard]] Summary summary_of(std::size_t event) const;
  static void merge(Summary& into, const Summary& other);
  void replay(const ir::RankProgram& program, const ir::AllocatorSettings& settings, Bytes capacity,
              const std::stop_token& stop);
  void summarise();

  std::vector<Moment> moments_;
  std::vector<ir::TensorRole> changed_;          ///< Role whose bytes an event changes.
  std::vector<Roles> before_;                    ///< Roles before every `kBucket`-th event.
  std::vector<std::vector<Summary>> summaries_;  ///< By level.
  Extremes whole_;
};

}  // namespace headroom::gui
