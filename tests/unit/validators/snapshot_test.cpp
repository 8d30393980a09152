// Memory snapshots: real ones of PyTorch 2.11 in tests/golden/snapshots (README there), and pickles
// written by hand.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "tests/support/cli.h"
#include "tests/support/pickle_text.h"
#include "validators/snapshot/growth.h"
#include "validators/snapshot/pickle_document.h"
#include "validators/snapshot/snapshot_reader.h"
#include "validators/snapshot/stack_rules.h"
#include "validators/snapshot/summary.h"

namespace headroom::check {
namespace {

using test::Pickle;

std::string snapshot_bytes(const std::string& name) {
  return read_file(test::source_file("tests/golden/snapshots/" + name + ".pickle")).value();
}

Snapshot snapshot_named(const std::string& name) {
  return read_snapshot(snapshot_bytes(name), name).value();
}

StackRules rules() {
  return read_stack_rules(test::source_file("configs/snapshot/stacks.json")).value();
}

Bytes used_for(const DeviceSummary& summary, BlockUse use) {
  return summary.at_peak.at(static_cast<std::size_t>(use));
}

/// A snapshot of one segment of 20 MiB and the entries of a history, as Python text would pickle
/// it.
std::string small_snapshot(const std::string& blocks, const std::string& trace) {
  return Pickle()
      .raw("}(")
      .text("segments")
      .raw("](}(")
      .text("device")
      .integer(0)
      .text("address")
      .integer(4'096)
      .text("total_size")
      .integer(20 * kMiB)
      .text("stream")
      .integer(0)
      .text("segment_type")
      .text("large")
      .text("blocks")
      .raw("](" + blocks + "eue")
      .text("device_traces")
      .raw("](](" + trace + "ee")
      .raw("u")
      .finish();
}

std::string block(std::int64_t address, std::int64_t size, std::string_view state) {
  return Pickle::part()
      .raw("}(")
      .text("address")
      .integer(address)
      .text("size")
      .integer(size)
      .text("state")
      .text(state)
      .raw("u")
      .bytes();
}

std::string entry(std::string_view action, std::int64_t address, std::int64_t size) {
  return Pickle::part()
      .raw("}(")
      .text("action")
      .text(action)
      .text("addr")
      .integer(address)
      .text("size")
      .integer(size)
      .text("stream")
      .integer(0)
      .raw("u")
      .bytes();
}

}  // namespace

TEST_CASE("snapshot: peaks and sums of real snapshots are those of torch.cuda, to the byte") {
  const test::Document figures(
      read_file(test::source_file("tests/golden/snapshots/figures.json")).value());
  for (const char* const name : {"two_layers", "python_stacks", "expandable", "leak_1", "leak_3",
                                 "leak_5", "out_of_memory"}) {
    CAPTURE(name);
    const DeviceHistory history = history_of(snapshot_named(name), 0);
    const auto figure = [&](const std::string& key) {
      return Bytes{figures.at(name).find(key)->as_integer().value()};
    };
    CHECK(history.is_whole());
    CHECK(history.unmatched == 0);
    CHECK(history.peak_allocated.bytes == figure("allocated_bytes.all.peak"));
    CHECK(history.peak_reserved.bytes == figure("reserved_bytes.all.peak"));
    CHECK(history.allocated == figure("allocated_bytes.all.current"));
    CHECK(history.reserved == figure("reserved_bytes.all.current"));
    CHECK(static_cast<std::int64_t>(history.out_of_memory.size()) == figure("num_ooms").value());
  }
}

TEST_CASE("snapshot: what is alive at the peak of a training step, by stack and lifetime") {
  // record.py: two blocks of two linear layers, 768 x 3072 with their biases.
  const Snapshot snapshot = snapshot_named("two_layers");
  const StackRules all = rules();
  const StackSorter sorter(all, snapshot);
  const DeviceSummary summary = summary_of(snapshot, sorter, 0);
  const std::int64_t parameters = 2 * (2 * 768 * 3'072 + 3'072 + 768);
  CHECK(used_for(summary, BlockUse::kParameters) == Bytes{4 * parameters});
  // Two states for each parameter; AdamW's counters of steps are on the host.
  CHECK(used_for(summary, BlockUse::kOptimizerStates) == Bytes{8 * parameters});
  // cuBLAS: 32 MiB on the forward's handle and on the backward's, cuBLASLt 1 MiB.
  CHECK(used_for(summary, BlockUse::kWorkspaces) == Bytes{65 * kMiB});
  CHECK(used_for(summary, BlockUse::kUnexplained) == Bytes{0});
  CHECK(summary.peak_phase == "backward");
  Bytes sum;
  for (const Bytes bytes : summary.at_peak) {
    sum += bytes;
  }
  CHECK(sum == summary.history.peak_allocated.bytes);
}

TEST_CASE("snapshot: stacks of Python alone are empty in backward, which counts as backward") {
  const Snapshot snapshot = snapshot_named("python_stacks");
  const StackRules all = rules();
  const StackSorter sorter(all, snapshot);
  const DeviceSummary summary = summary_of(snapshot, sorter, 0);
  CHECK(summary.peak_phase == "backward");
  CHECK(used_for(summary, BlockUse::kUnexplained) == Bytes{0});
  CHECK(used_for(summary, BlockUse::kGradients) > Bytes{0});
}

TEST_CASE("snapshot: running out of memory is found, with the line that asked") {
  const Snapshot snapshot = snapshot_named("out_of_memory");
  const StackRules all = rules();
  const StackSorter sorter(all, snapshot);
  const DeviceHistory history = history_of(snapshot, 0);
  REQUIRE(history.out_of_memory.size() == 1);
  const OutOfMemoryEvent& event = history.out_of_memory.front();
  CHECK(event.requested == Bytes{256 * kMiB});  // 16384 x 4096 floats.
  CHECK(event.allocated == history.peak_allocated.bytes);
  CHECK(sorter.line_of(event.stack) == "train.py:28 forward");
  // The exception releases the activations; they were not temporaries.
  const DeviceSummary summary = summary_of(snapshot, sorter, 0);
  CHECK(used_for(summary, BlockUse::kActivations) == Bytes{256 * kMiB});
}

TEST_CASE("snapshot: leaks within a history and between files are the lines that leak") {
  const std::vector<std::string> names = {"leak_1", "leak_3", "leak_5"};
  const StackRules all = rules();
  std::vector<Snapshot> snapshots;
  for (const std::string& name : names) {
    snapshots.push_back(snapshot_named(name));
  }
  std::vector<StackSorter> sorters;
  for (const Snapshot& snapshot : snapshots) {
    sorters.emplace_back(all, snapshot);
  }
  // record.py keeps x * 2 (512 x 256 floats) and the loss of every step.
  const Growth within = growth_within(snapshots[2], sorters[2], history_of(snapshots[2], 0));
  REQUIRE(within.stacks.size() == 2);
  CHECK(within.moments ==
        std::vector<std::string>{"step 2", "step 3", "step 4", "step 5", "step 6"});
  CHECK(within.stacks[0].per_step() == Bytes{512 * kKiB});
  CHECK(within.stacks[0].line == "train.py:78 train");
  CHECK(within.stacks[1].per_step() == Bytes{512});
  std::vector<NamedSnapshot> named;
  for (std::size_t at = 0; at < names.size(); ++at) {
    named.push_back({.name = names[at], .snapshot = &snapshots[at], .sorter = &sorters[at]});
  }
  const Growth between = growth_between(named);
  REQUIRE(between.stacks.size() == 2);  // Two steps lie between two files.
  CHECK(between.stacks[0].per_step() == Bytes{kMiB});
  CHECK(between.stacks[0].line == "train.py:78 train");
  CHECK(between.stacks[0].steady);
}

TEST_CASE("snapshot: a run without a leak has none") {
  const StackRules all = rules();
  const Snapshot snapshot = snapshot_named("leak_1");
  const StackSorter sorter(all, snapshot);
  // Two steps, the first of which is left out, tell nothing.
  CHECK(growth_within(snapshot, sorter, history_of(snapshot, 0)).moments.empty());
}

TEST_CASE("snapshot: a history that begins late says what was allocated before") {
  // 3 MiB before the history; 2 MiB come and go, 1 MiB of what was there before goes.
  const std::int64_t a = 4'096;
  const std::int64_t b = a + 2 * kMiB;
  const std::int64_t c = b + kMiB;
  const std::string bytes =
      small_snapshot(block(a, 2 * kMiB, "active_allocated") + block(b, 18 * kMiB, "inactive"),
                     entry("alloc", c, 2 * kMiB) + entry("free_requested", b, kMiB) +
                         entry("free_completed", b, kMiB) + entry("free_requested", c, 2 * kMiB) +
                         entry("free_completed", c, 2 * kMiB));
  const DeviceHistory history = history_of(read_snapshot(bytes, "late").value(), 0);
  CHECK_FALSE(history.is_whole());
  CHECK(history.allocated_at_start == Bytes{3 * kMiB});
  CHECK(history.peak_allocated.bytes == Bytes{5 * kMiB});
  CHECK(history.peak_allocated.event == 0);
  CHECK(history.allocated == Bytes{2 * kMiB});
  CHECK(history.reserved_at_start == Bytes{20 * kMiB});
}

TEST_CASE("snapshot: a block that was released had what PyTorch does not split off") {
  // 19.5 MiB of a segment of 20 MiB: the rest of 0.5 MiB stays in the block.
  const std::int64_t a = 4'096;
  const std::string bytes = small_snapshot(
      block(a, 20 * kMiB, "inactive"),
      entry("segment_alloc", a, 20 * kMiB) + entry("alloc", a, 39 * kMiB / 2) +
          entry("free_requested", a, 39 * kMiB / 2) + entry("free_completed", a, 39 * kMiB / 2) +
          entry("alloc", a, 3 * kMiB) + entry("free_requested", a, 3 * kMiB));
  const DeviceHistory history = history_of(read_snapshot(bytes, "rest").value(), 0);
  REQUIRE(history.lives.size() == 2);
  CHECK(history.lives[0].size == Bytes{20 * kMiB});
  CHECK(history.lives[1].size == Bytes{3 * kMiB});
  CHECK(history.is_whole());
}

TEST_CASE("snapshot: a block from before the history has the rest that nobody else can use") {
  // 4.5 MiB were asked for in front of a block of 15 MiB, in a segment of 20 MiB.
  const std::int64_t a = 4'096;
  const std::int64_t b = a + 5 * kMiB;
  const std::string bytes = small_snapshot(
      block(a, 5 * kMiB, "inactive") + block(b, 15 * kMiB, "active_allocated"),
      entry("free_requested", a, 9 * kMiB / 2) + entry("free_completed", a, 9 * kMiB / 2));
  const DeviceHistory history = history_of(read_snapshot(bytes, "rest").value(), 0);
  CHECK(history.allocated_at_start == Bytes{20 * kMiB});
}

TEST_CASE("snapshot: segments given back before a request are a retry, not those of empty_cache") {
  const std::int64_t a = 4'096;
  const std::int64_t gone = 1 << 30;
  const std::string retried =
      small_snapshot(block(a, 20 * kMiB, "inactive"),
                     entry("segment_free", gone, 2 * kMiB) + entry("segment_alloc", a, 20 * kMiB));
  const DeviceHistory history = history_of(read_snapshot(retried, "retry").value(), 0);
  REQUIRE(history.retries.size() == 1);
  CHECK(history.retries.front().released == Bytes{2 * kMiB});
  const std::string emptied =
      small_snapshot(block(a, 20 * kMiB, "inactive"),
                     entry("segment_free", gone, 2 * kMiB) + entry("alloc", a, 512));
  CHECK(history_of(read_snapshot(emptied, "emptied").value(), 0).retries.empty());
}

TEST_CASE(
    "snapshot: PyTorch 1.13 and 2.0 keep stacks under history, and memory_snapshot is a list") {
  const std::string bytes =
      Pickle(2)
          .raw("](}(")
          .text("device")
          .integer(1)
          .text("address")
          .integer(512)
          .text("total_size")
          .integer(2 * kMiB)
          .text("segment_type")
          .text("small")
          .text("blocks")
          .raw("](}(")
          .text("size")
          .integer(1'024)
          .text("state")
          .text("active_allocated")
          .text("history")
          .raw("](}(")
          .text("addr")
          .integer(512)
          .text("real_size")
          .integer(600)
          .text("frames")
          .raw("](}(")
          .text("filename")
          .text("/home/me/train.py")
          .text("line")
          .integer(7)
          .text("name")
          .text("step")
          .raw("ueueue")  // Frame, frames, history entry, history, block, blocks.
          .raw("ue")
          .finish();
  const Result<Snapshot> snapshot = read_snapshot(bytes, "old");
  REQUIRE_MESSAGE(snapshot, (snapshot ? "" : to_text(snapshot.error())));
  REQUIRE(snapshot->segments.size() == 1);
  const SnapshotSegment& segment = snapshot->segments.front();
  CHECK(segment.device == 1);
  CHECK(segment.small);
  REQUIRE(segment.blocks.size() == 2);  // And the free rest of the segment.
  CHECK(segment.blocks[0].requested == Bytes{600});
  CHECK(segment.blocks[1].size == Bytes{2 * kMiB - 1'024});
  const StackRules all = rules();
  CHECK(StackSorter(all, *snapshot).line_of(segment.blocks[0].stack) == "train.py:7 step");
}

TEST_CASE("snapshot: what is no snapshot is refused with what it is") {
  const auto refused = [](const std::string& bytes, std::string_view said) {
    const Result<Snapshot> snapshot = read_snapshot(bytes, "file.pickle");
    REQUIRE_FALSE(snapshot);
    CHECK(snapshot.error().code == ErrorCode::kInvalidInput);
    CAPTURE(to_text(snapshot.error()));
    CHECK(to_text(snapshot.error()).find(said) != std::string::npos);
  };
  refused("", "an empty file");
  refused("PK\x03\x04 and so on", "a zip archive");
  refused("{\"segments\": []}", "a JSON text");
  refused(Pickle().raw("}").finish(), "no \"segments\"");
  refused(Pickle().integer(7).finish(), "a single value");
  refused(small_snapshot(block(4'096, 21 * kMiB, "inactive"), ""), "leaves its segment");
  refused(small_snapshot(block(4'096, kMiB, "inactive") + block(4'608, kMiB, "inactive"), ""),
          "overlaps another");
  refused(small_snapshot(block(4'096, -1, "inactive"), ""), "/size");
  const std::string whole = snapshot_bytes("leak_1");
  refused(whole.substr(0, whole.size() / 2), "ends inside the pickle");
}

}  // namespace headroom::check
