#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/plan/device_work.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::ir::torch {

/// The place of an item in a program.
struct WorkPlace {
  StreamId stream = 0;
  std::uint32_t event = 0;
  std::uint32_t site = 0;
  std::uint16_t loop = 0;
};

/// Writes a `DeviceWork`: every distinct shape once, items in the order in which they are issued.
class WorkRecorder {
 public:
  WorkRecorder() { work_.items.reserve(std::size_t{1} << 14); }

  /// Adds an item that runs a shape. `Shape`: one of the alternatives of `WorkShape`.
  template <class Shape>
  void run(const Shape& shape, const WorkPlace& place) {
    add(WorkItem::Kind::kRun, index_of(shape), place);
  }
  void add(WorkItem::Kind kind, std::uint32_t index, const WorkPlace& place) {
    work_.items.push_back({.kind = kind,
                           .stream = place.stream,
                           .loop = place.loop,
                           .index = index,
                           .event = place.event,
                           .site = place.site});
  }
  /// A mark after all work given to the stream so far.
  std::uint32_t record(const WorkPlace& place) {
    add(WorkItem::Kind::kRecord, work_.marks, place);
    return work_.marks++;
  }
  [[nodiscard]] std::size_t item_count() const { return work_.items.size(); }
  void name_stream(StreamId stream, std::string_view name);
  /// The stream on which a process group's communicator runs asynchronous collectives; `purpose`
  /// distinguishes communicators over the same ranks.
  [[nodiscard]] StreamId communicator(const RankGroup& group, std::string_view purpose);
  [[nodiscard]] DeviceWork take();

 private:
  template <class Shape>
  std::uint32_t index_of(const Shape& shape);
  void grow();

  struct Communicator {
    RankGroup group;
    std::string purpose;
    StreamId stream = 0;
  };

  DeviceWork work_;
  std::vector<std::uint32_t> slots_ = std::vector<std::uint32_t>(256);  ///< Index + 1; 0: free.
  std::vector<Communicator> communicators_;
};

}  // namespace headroom::ir::torch
