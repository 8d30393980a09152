#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"

namespace headroom::cost {

/// Durations and launch costs of a program's items.
struct WorkCosts {
  std::span<const Seconds> durations;  ///< Duration of each of `DeviceWork::shapes` on its stream.
  Seconds launch;                      ///< Host time to launch one kernel.
  /// The same for each product of a series and each kernel of a loop inside an operator; unset: as
  /// `launch`.
  std::optional<Seconds> looped{};
  std::optional<Seconds> exchange{};  ///< The same for a token exchange; unset: as `launch`.
  Seconds tensor{};                   ///< For each tensor that a loop makes.
  Seconds graph{};                    ///< Launch of a kernel in a CUDA graph.
  std::vector<bool> graphed{};        ///< By site: whether its kernels are in a graph. Empty: none.
  /// Share of the multiprocessors that a collective takes from concurrent products and attention.
  double taken_ratio = 0;
};

/// The items of a program on the streams of one device.
struct StreamTimeline {
  /// Not an item: the host, which had not issued the work yet.
  static constexpr std::uint32_t kHost = std::numeric_limits<std::uint32_t>::max();

  std::vector<Seconds> begin;  ///< Begin of each item; marks and waits: when they are reached.
  std::vector<Seconds> end;
  /// What the begin of each item waited for last: an item of its stream or behind a mark, or
  /// `kHost`.
  std::vector<std::uint32_t> blocker;
  std::vector<Seconds> busy;  ///< Busy time of each stream.
  Seconds total;              ///< Until every stream has finished.

  /// A wait of the host: until when, and for which item.
  struct HostWait {
    Seconds until;
    std::uint32_t item = kHost;
  };
  std::vector<HostWait> host_waits;
  std::vector<std::uint32_t> host_wait_of;  ///< For each item: the number of host waits before it.
};

/// Lays the items of a program out on streams.
///
///   host     |i0|i1|i2|i3| ...            issues, one launch after the other
///   compute     |--0--|     |---2---|     waits for the mark behind 1
///   gather         |---1----|
///
/// Model:   a stream runs its items in the order of issue, each when the host has issued it, the
///          previous one has ended and every mark it waits for has been reached. An item with
///          several launches cannot end before the last of them is issued and has run. Work on the
///          host blocks the host. Products and attention kernels keep every multiprocessor busy:
///          those of different streams run one after the other, in the order of issue. On the
///          compute stream they run on the multiprocessors that are not used by collectives of
///          other streams, if those were issued before them.
/// Ignores: limits of the launch queue; slowdown of other kernels that run at the same time, and by
///          collectives that are issued while a kernel waits or runs.
/// Requires one duration for each shape.
[[nodiscard]] StreamTimeline replay_streams(const ir::DeviceWork& work, const WorkCosts& costs);

/// A time in which a stream was idle, and the cause: an item of another stream that ran then, or
/// `StreamTimeline::kHost`.
struct Stall {
  std::uint32_t item = 0;     ///< The item that began late.
  std::uint32_t blocker = 0;  ///< The item that ran meanwhile.
  Seconds time;
};

/// Items [first, last) of a program.
struct ItemRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// What the compute stream waited for before and between items of `range`.
///
/// Model:   the gap before an item is split among the items that it waited for, going back from one
///          to the one before it, to the gap's beginning. Time that no item covers is assigned to
///          the host.
[[nodiscard]] std::vector<Stall> stalls_of(const ir::DeviceWork& work,
                                           const StreamTimeline& timeline, ItemRange range);

}  // namespace headroom::cost
