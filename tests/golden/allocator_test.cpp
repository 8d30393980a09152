// Whole recorded histories of PyTorch's own allocator; each file in golden/allocator says with
// which settings and what kind of program it was recorded.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "costmodel/memory/caching_allocator.h"
#include "model_ir/base/units.h"

namespace headroom::cost {
namespace {

using nlohmann::json;

json read_recording(const std::string& name) {
  std::ifstream file(std::string(HEADROOM_SOURCE_DIR) + "/tests/golden/allocator/" + name);
  REQUIRE(file);
  return json::parse(file);
}

ir::AllocatorSettings settings_of(const json& recording) {
  const json& given = recording.at("settings");
  ir::AllocatorSettings settings;
  settings.segments = ir::SegmentPlaces::kRising;
  settings.expandable_segments = given.at("expandable_segments");
  if (!given.at("max_split_size_bytes").is_null()) {
    settings.max_split_size = Bytes{given.at("max_split_size_bytes").get<std::int64_t>()};
  }
  settings.max_non_split_rounding =
      Bytes{given.at("max_non_split_rounding_bytes").get<std::int64_t>()};
  settings.garbage_collection_threshold = given.at("garbage_collection_threshold");
  settings.roundup_power2_divisions = given.at("roundup_power2_divisions");
  return settings;
}

/// [events before it, allocated, requested, reserved, their three peaks, retries]
std::vector<std::int64_t> checkpoint(std::size_t events, const AllocatorState& state) {
  return {static_cast<std::int64_t>(events), state.allocated.value(),
          state.requested.value(),           state.reserved.value(),
          state.peak_allocated.value(),      state.peak_requested.value(),
          state.peak_reserved.value(),       state.retries};
}

/// What a replay of the recording shows, in the recording's own form.
struct Replayed {
  std::vector<std::vector<std::int64_t>> reserved;  ///< [event, reserved bytes], where they change.
  std::vector<std::vector<std::int64_t>> checkpoints;
  std::vector<std::size_t> out_of_memory;
};

Replayed replay_recording(const json& recording) {
  DeviceMemory device{.capacity = Bytes{recording.at("capacity_bytes").get<std::int64_t>()}};
  if (!recording.at("allowed_bytes").is_null()) {
    device.allowed = Bytes{recording.at("allowed_bytes").get<std::int64_t>()};
  }
  CachingAllocator allocator(settings_of(recording), device);
  const json& events = recording.at("events");
  const json& checkpoints = recording.at("checkpoints");
  Replayed replayed;
  std::size_t next = 0;
  ir::BlockId block = 0;
  std::int64_t reserved = 0;
  for (std::size_t index = 0; index <= events.size(); ++index) {
    while (next < checkpoints.size() && checkpoints[next][0] == index) {
      replayed.checkpoints.push_back(checkpoint(index, allocator.state()));
      if (recording.at("reset_peaks_at_checkpoints")) {
        allocator.reset_peaks();
      }
      ++next;
    }
    if (index == events.size()) {
      break;
    }
    const json& event = events[index];
    if (event[0] == 1) {  // [1, bytes, stream]
      if (!allocator.allocate(block++, Bytes{event[1].get<std::int64_t>()}, event[2])) {
        replayed.out_of_memory.push_back(index);
      }
    } else if (event[0] == 0) {  // [0, block]
      allocator.free(event[1]);
    } else {  // [2]
      allocator.empty_cache();
    }
    if (allocator.state().reserved.value() != reserved) {
      reserved = allocator.state().reserved.value();
      replayed.reserved.push_back({static_cast<std::int64_t>(index), reserved});
    }
  }
  return replayed;
}

void check_recording(const std::string& name) {
  const json recording = read_recording(name);
  const Replayed replayed = replay_recording(recording);
  CHECK(json(replayed.reserved) == recording.at("reserved"));
  CHECK(json(replayed.checkpoints) == recording.at("checkpoints"));
  CHECK(json(replayed.out_of_memory) == recording.at("out_of_memory"));
}

}  // namespace

TEST_CASE("golden: training with default settings, releases and retries included") {
  check_recording("training_default.json");
}
TEST_CASE("golden: training with max_split_size on a device that is nearly full") {
  check_recording("training_max_split.json");
}
TEST_CASE("golden: training with expandable segments until memory runs out") {
  check_recording("training_expandable.json");
}
TEST_CASE("golden: FSDP2 training on three streams") {
  check_recording("training_fsdp2.json");
}
TEST_CASE("golden: random requests with garbage collection") {
  check_recording("random_garbage_collection.json");
}
TEST_CASE("golden: random requests with garbage collection and max_split_size") {
  check_recording("random_collection_and_splits.json");
}
TEST_CASE("golden: random requests with expandable segments and rounding to 4 divisions") {
  check_recording("random_expandable.json");
}
TEST_CASE("golden: random requests with rounding to 8 divisions") {
  check_recording("random_rounding.json");
}

}  // namespace headroom::cost
