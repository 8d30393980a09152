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

/// What the items of a program take.
struct WorkCosts {
  std::span<const Seconds> durations;  ///< Of each shape of `DeviceWork::shapes`, on its stream.
  Seconds launch;                      ///< What the host needs to hand over one kernel.
  /// For each product of a series and each kernel of a loop inside an operator; unset: as `launch`.
  std::optional<Seconds> looped{};
  std::optional<Seconds> exchange{};  ///< For a token exchange; unset: as `launch`.
  Seconds tensor{};                   ///< For each tensor that a loop makes.
  Seconds graph{};                    ///< In a graph.
  std::vector<bool> graphed{};        ///< By site: whether its kernels are in one. Empty: none.
  /// Share of the multiprocessors that a collective takes from products and attention meanwhile.
  double taken_ratio = 0;
};

/// Items of a program on the streams of one device.
struct StreamTimeline {
  /// No item: the host, which had not issued the work yet.
  static constexpr std::uint32_t kHost = std::numeric_limits<std::uint32_t>::max();

  std::vector<Seconds> begin;  ///< Of each item; marks and waits: when they are reached.
  std::vector<Seconds> end;
  /// Which item the begin of each waited for last: of its stream, or across a mark; or `kHost`.
  std::vector<std::uint32_t> blocker;
  std::vector<Seconds> busy;  ///< Of each stream.
  Seconds total;              ///< Until every stream has run dry.

  /// Where the host itself waited: until when, and for which item.
  struct HostWait {
    Seconds until;
    std::uint32_t item = kHost;
  };
  std::vector<HostWait> host_waits;
  std::vector<std::uint32_t> host_wait_of;  ///< Of each item: how many came before it.
};

/// Lays the items of a program out on streams.
///
///   host     |i0|i1|i2|i3| ...            issues, one launch after the other
///   compute     |--0--|     |---2---|     waits for the mark behind 1
///   gather         |---1----|
///
/// Model:   a stream runs its items in the order of issue, each when the host has issued it, the
///          one before has ended and every mark it waits for has been reached. An item with several
///          launches cannot end before the last of them is issued and has run. Work on the host
///          keeps the host. Products and attention kernels keep every multiprocessor busy: those of
///          different streams run one after the other, in the order of issue. Those of the compute
///          stream go on with the multiprocessors that collectives of other streams, issued before
///          them, leave.
/// Ignores: limits of the launch queue; slowdown of other kernels that run at the same time, and by
///          collectives that are issued while a kernel waits or runs.
/// Requires one duration for each shape.
[[nodiscard]] StreamTimeline replay_streams(const ir::DeviceWork& work, const WorkCosts& costs);

/// A time that a stream stood still, and what kept it: an item of another stream that ran then, or
/// `StreamTimeline::kHost`.
struct Stall {
  std::uint32_t item = 0;     ///< The one that began late.
  std::uint32_t blocker = 0;  ///< What ran meanwhile.
  Seconds time;
};

/// Items [first, last) of a program.
struct ItemRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// What the compute stream waited for before and between items of `range`.
///
/// Model:   the gap before an item is cut at the items that its begin waited for, one behind the
///          other back to the gap's beginning; what no item covers is the host's.
[[nodiscard]] std::vector<Stall> stalls_of(const ir::DeviceWork& work,
                                           const StreamTimeline& timeline, ItemRange range);

}  // namespace headroom::cost
