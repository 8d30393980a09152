#include "validators/snapshot/snapshot_reader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "validators/snapshot/pickle_document.h"
#include "validators/snapshot/stack_table.h"

namespace headroom::check {
namespace {

/// No GPU has as much, and four million sizes below it add up to less than 2^63.
constexpr std::int64_t kGreatestSize = std::int64_t{1} << 40;
constexpr std::size_t kMostEntries = std::size_t{1} << 22;
constexpr std::int64_t kMostDevices = 1'024;

enum class Field : std::uint8_t {
  kNone,
  kSegments,
  kDeviceTraces,
  kSettings,
  kAnnotations,
  kDevice,
  kAddress,
  kTotalSize,
  kStream,
  kSegmentType,
  kPool,
  kExpandable,
  kBlocks,
  kSize,
  kRequestedSize,
  kRealSize,
  kState,
  kFrames,
  kHistory,
  kAction,
  kAddr,
  kDeviceFree,
  kTime,
  kStage,
  kName,
};

constexpr std::array<std::pair<std::string_view, Field>, 25> kFields = {{
    {"segments", Field::kSegments},
    {"device_traces", Field::kDeviceTraces},
    {"allocator_settings", Field::kSettings},
    {"external_annotations", Field::kAnnotations},
    {"device", Field::kDevice},
    {"address", Field::kAddress},
    {"total_size", Field::kTotalSize},
    {"stream", Field::kStream},
    {"segment_type", Field::kSegmentType},
    {"segment_pool_id", Field::kPool},
    {"is_expandable", Field::kExpandable},
    {"blocks", Field::kBlocks},
    {"size", Field::kSize},
    {"requested_size", Field::kRequestedSize},
    {"real_size", Field::kRealSize},
    {"state", Field::kState},
    {"frames", Field::kFrames},
    {"history", Field::kHistory},
    {"action", Field::kAction},
    {"addr", Field::kAddr},
    {"device_free", Field::kDeviceFree},
    {"time_us", Field::kTime},
    {"stage", Field::kStage},
    {"name", Field::kName},
    {"", Field::kNone},
}};

constexpr std::array<std::pair<std::string_view, TraceAction>, 9> kActions = {{
    {"alloc", TraceAction::kAllocate},
    {"free_requested", TraceAction::kFreeRequested},
    {"free_completed", TraceAction::kFreeCompleted},
    {"segment_alloc", TraceAction::kSegmentAllocate},
    {"segment_map", TraceAction::kSegmentAllocate},
    {"segment_free", TraceAction::kSegmentFree},
    {"segment_unmap", TraceAction::kSegmentFree},
    {"snapshot", TraceAction::kSnapshot},
    {"oom", TraceAction::kOutOfMemory},
}};

class SnapshotReader {
 public:
  SnapshotReader(const PickleDocument& document, std::string_view file)
      : document_(document), file_(file), stacks_(document, snapshot_) {
    fields_.assign(document.texts(), Field::kNone);
  }

  Result<Snapshot> read() {
    name_fields();
    const PickleValue root = document_.root();
    if (root.kind() == PickleKind::kList) {  // torch.cuda.memory_snapshot()
      read_segments(root);
    } else if (root.kind() == PickleKind::kDict) {
      read_root(root);
    } else {
      fail("", "a single value", R"(a dictionary with "segments")");
    }
    if (!fault_) {
      order_segments();
    }
    if (!fault_ && stacks_.fault()) {
      fail("/frames", *stacks_.fault(), R"(a stack: a list of "filename", "line" and "name")");
    }
    if (fault_) {
      return *std::move(fault_);
    }
    stacks_.finish();
    return std::move(snapshot_);
  }

 private:
  void name_fields() {
    for (std::size_t id = 0; id < document_.texts(); ++id) {
      const std::string_view text = document_.text({PickleKind::kText, id});
      const auto* const known =
          std::ranges::find(kFields, text, &std::pair<std::string_view, Field>::first);
      fields_[id] = known == kFields.end() ? Field::kNone : known->second;
    }
  }

  /// `place`: where in the document it stands, "/segments/blocks".
  void fail(const std::string& place, std::string_view got, std::string_view wanted) {
    if (!fault_) {
      fault_ =
          Error::invalid_input(file_, place.empty() ? "/" : place, got, wanted,
                               "use the file that torch.cuda.memory._dump_snapshot(FILE) wrote");
    }
  }

  /// Calls `visit(field, value)` for the members of a dictionary whose keys are known.
  template <typename Visit>
  void each(PickleValue dictionary, const Visit& visit) {
    if (dictionary.kind() != PickleKind::kDict) {
      fail({}, "something else among dictionaries", "a dictionary");
      return;
    }
    const std::span<const PickleValue> items = document_.items(dictionary);
    for (std::size_t at = 0; at + 1 < items.size() && !fault_; at += 2) {
      if (items[at].kind() == PickleKind::kText) {
        if (const Field field = fields_[items[at].payload()]; field != Field::kNone) {
          visit(field, items[at + 1]);
        }
      }
    }
  }

  /// Calls `visit(value, index)` for the items of a list.
  template <typename Visit>
  void each_item(PickleValue list, std::string_view what, const Visit& visit) {
    if (list.kind() != PickleKind::kList) {
      fail("/" + std::string(what), "no list", "a list");
      return;
    }
    const std::span<const PickleValue> items = document_.items(list);
    for (std::size_t at = 0; at < items.size() && !fault_; ++at) {
      visit(items[at], at);
    }
  }

  std::int64_t integer(PickleValue value, std::string_view what, std::int64_t least,
                       std::int64_t greatest) {
    if (value.kind() == PickleKind::kInteger) {
      const std::int64_t found = PickleDocument::integer(value);
      if (least <= found && found <= greatest) {
        return found;
      }
      fail("/" + std::string(what), std::to_string(found),
           std::to_string(least) + " to " + std::to_string(greatest));
    } else {
      fail("/" + std::string(what), "no integer", "an integer");
    }
    return least;
  }
  Bytes size(PickleValue value, std::string_view what) {
    return Bytes{integer(value, what, 0, kGreatestSize)};
  }
  std::uint64_t address(PickleValue value, std::string_view what) {
    constexpr std::int64_t kGreatestAddress = std::int64_t{1} << 58;
    return static_cast<std::uint64_t>(integer(value, what, 0, kGreatestAddress));
  }
  std::string_view text(PickleValue value, std::string_view what) {
    if (value.kind() != PickleKind::kText) {
      fail("/" + std::string(what), "no text", "a text");
      return {};
    }
    return document_.text(value);
  }

  void read_root(PickleValue root) {
    bool has_segments = false;
    each(root, [&](Field field, PickleValue value) {
      switch (field) {
        case Field::kSegments:
          has_segments = true;
          read_segments(value);
          break;
        case Field::kDeviceTraces:
          each_item(value, "device_traces", [&](PickleValue trace, std::size_t device) {
            read_trace(trace, static_cast<std::int64_t>(device));
          });
          break;
        case Field::kSettings:
          read_settings(value);
          break;
        case Field::kAnnotations:
          each_item(value, "external_annotations",
                    [&](PickleValue item, std::size_t) { read_annotation(item); });
          break;
        default:
          break;
      }
    });
    if (!has_segments) {
      fail("", R"(no "segments")", R"(a memory snapshot: "segments" and "device_traces")");
    }
  }

  void read_segments(PickleValue list) {
    each_item(list, "segments", [&](PickleValue item, std::size_t) {
      SnapshotSegment segment;
      PickleValue blocks(PickleKind::kNone, 0);
      each(item, [&](Field field, PickleValue value) {
        if (field == Field::kBlocks) {
          blocks = value;
        } else {
          read_segment_field(segment, field, value);
        }
      });
      if (!fault_ && blocks.kind() == PickleKind::kNone) {
        fail("/segments", R"(a segment without "blocks")", "a memory snapshot");
      }
      if (!fault_) {
        read_blocks(segment, blocks);
        snapshot_.segments.push_back(std::move(segment));
        count_entry();
      }
    });
  }

  void read_segment_field(SnapshotSegment& segment, Field field, PickleValue value) {
    switch (field) {
      case Field::kDevice:
        segment.device = integer(value, "device", 0, kMostDevices);
        break;
      case Field::kAddress:
        segment.address = address(value, "address");
        break;
      case Field::kTotalSize:
        segment.size = size(value, "total_size");
        break;
      case Field::kStream:
        segment.stream = address(value, "stream");
        break;
      case Field::kSegmentType:
        segment.small = text(value, "segment_type") == "small";
        break;
      case Field::kPool:
        segment.private_pool = is_private(value);
        break;
      case Field::kExpandable:
        segment.expandable = value.kind() == PickleKind::kBool && value.payload() != 0;
        break;
      default:
        break;
    }
  }

  /// The default pool is (0, 0).
  [[nodiscard]] bool is_private(PickleValue pool) const {
    return pool.kind() == PickleKind::kList &&
           std::ranges::any_of(document_.items(pool), [](PickleValue part) {
             return part.kind() == PickleKind::kInteger && PickleDocument::integer(part) != 0;
           });
  }

  void read_blocks(SnapshotSegment& segment, PickleValue list) {
    std::uint64_t next = segment.address;
    each_item(list, "blocks", [&](PickleValue item, std::size_t) {
      SnapshotBlock block{.address = next, .size = {}, .requested = {}, .state = {}, .stack = 0};
      bool has_requested = false;
      each(item, [&](Field field, PickleValue value) {
        has_requested = has_requested || field == Field::kRequestedSize;
        read_block_field(block, field, value);
      });
      if (!has_requested && block.requested == Bytes{0}) {
        block.requested = block.size;
      }
      block.requested = std::min(block.requested, block.size);
      next = block.address + static_cast<std::uint64_t>(block.size.value());
      segment.blocks.push_back(block);
      count_entry();
    });
  }

  void read_block_field(SnapshotBlock& block, Field field, PickleValue value) {
    switch (field) {
      case Field::kAddress:
        block.address = address(value, "address");
        break;
      case Field::kSize:
        block.size = size(value, "size");
        break;
      case Field::kRequestedSize:
        block.requested = size(value, "requested_size");
        break;
      case Field::kState: {
        // "active_pending_free" until 2.0, "active_awaiting_free" since.
        const std::string_view state = text(value, "state");
        block.state = state == "active_allocated" ? BlockState::kAllocated
                      : state == "inactive"       ? BlockState::kFree
                                                  : BlockState::kAwaitingFree;
        break;
      }
      case Field::kFrames:
        block.stack = stacks_.stack_of(value);
        break;
      case Field::kHistory:
        read_history(block, value);
        break;
      default:
        break;
    }
  }

  void read_history(SnapshotBlock& block, PickleValue list) {
    each_item(list, "history", [&](PickleValue item, std::size_t at) {
      each(item, [&](Field field, PickleValue value) {
        if (at == 0 && field == Field::kFrames) {
          block.stack = stacks_.stack_of(value);
        } else if (at == 0 && field == Field::kRealSize) {
          block.requested = size(value, "real_size");
        }
      });
    });
  }

  void read_trace(PickleValue list, std::int64_t device) {
    DeviceTrace trace{.device = device, .entries = {}};
    each_item(list, "device_traces", [&](PickleValue item, std::size_t) {
      TraceEntry entry;
      each(item, [&](Field field, PickleValue value) { read_entry_field(entry, field, value); });
      trace.entries.push_back(entry);
      count_entry();
    });
    if (!trace.entries.empty()) {
      snapshot_.traces.push_back(std::move(trace));
    }
    if (device > kMostDevices) {
      fail("/device_traces", "more than 1,024 devices", "the devices of one process");
    }
  }

  void read_entry_field(TraceEntry& entry, Field field, PickleValue value) {
    constexpr std::int64_t kGreatestTime = std::int64_t{1} << 58;
    switch (field) {
      case Field::kAction:
        entry.action = action_of(text(value, "action"));
        break;
      case Field::kAddr:
        entry.address = address(value, "addr");
        break;
      case Field::kSize:
        entry.size = size(value, "size");
        break;
      case Field::kStream:
        entry.stream = address(value, "stream");
        break;
      case Field::kDeviceFree:
        entry.device_free = size(value, "device_free");
        break;
      case Field::kTime:
        entry.time = integer(value, "time_us", -1, kGreatestTime);
        break;
      case Field::kFrames:
        entry.stack = stacks_.stack_of(value);
        break;
      default:
        break;
    }
  }

  TraceAction action_of(std::string_view word) {
    const auto* const known =
        std::ranges::find(kActions, word, &std::pair<std::string_view, TraceAction>::first);
    if (known != kActions.end()) {
      return known->second;
    }
    constexpr std::size_t kMostUnknown = 8;
    std::vector<std::string>& unknown = snapshot_.unknown_actions;
    if (unknown.size() < kMostUnknown && std::ranges::find(unknown, word) == unknown.end()) {
      unknown.emplace_back(word);
    }
    return TraceAction::kOther;
  }

  void read_annotation(PickleValue item) {
    SnapshotAnnotation annotation;
    constexpr std::int64_t kGreatestTime = std::int64_t{1} << 58;
    each(item, [&](Field field, PickleValue value) {
      if (field == Field::kStage) {
        annotation.begins = text(value, "stage") == "START";
      } else if (field == Field::kName) {
        constexpr std::size_t kMostLetters = 120;
        annotation.name = text(value, "name").substr(0, kMostLetters);
      } else if (field == Field::kDevice) {
        annotation.device = integer(value, "device", -1, kMostDevices);
      } else if (field == Field::kTime) {
        annotation.time = integer(value, "time_us", -1, kGreatestTime);
      }
    });
    snapshot_.annotations.push_back(std::move(annotation));
    count_entry();
  }

  void read_settings(PickleValue dictionary) {
    if (dictionary.kind() != PickleKind::kDict) {
      return;  // Of no use, and not needed.
    }
    constexpr std::size_t kMostSettings = 64;
    const std::span<const PickleValue> items = document_.items(dictionary);
    for (std::size_t at = 0; at + 1 < std::min(items.size(), 2 * kMostSettings); at += 2) {
      const std::optional<std::string> value = setting_text(items[at + 1]);
      if (items[at].kind() == PickleKind::kText && value) {
        snapshot_.settings.push_back({std::string(document_.text(items[at])), *value});
      }
    }
  }

  /// A setting as Python prints it; nothing for a list or dictionary.
  [[nodiscard]] std::optional<std::string> setting_text(PickleValue value) const {
    switch (value.kind()) {
      case PickleKind::kBool:
        return value.payload() != 0 ? "True" : "False";
      case PickleKind::kInteger:
        return std::to_string(PickleDocument::integer(value));
      case PickleKind::kReal: {
        std::string text = std::to_string(document_.real(value));
        text.erase(std::max(text.find_last_not_of('0') + 1, text.find('.') + 2));
        return text;
      }
      case PickleKind::kText:
        return std::string(document_.text(value));
      case PickleKind::kNone:
      case PickleKind::kList:
      case PickleKind::kDict:
        break;
    }
    return std::nullopt;
  }

  void count_entry() {
    if (++entries_ > kMostEntries) {
      fail("", "more than " + with_commas(static_cast<std::int64_t>(kMostEntries)) + " entries",
           "fewer: record with a smaller max_entries");
    }
  }

  /// Sorts the segments and fills what no block of a segment describes with free blocks.
  void order_segments() {
    std::ranges::stable_sort(snapshot_.segments, {}, [](const SnapshotSegment& segment) {
      return std::pair(segment.device, segment.address);
    });
    const SnapshotSegment* before = nullptr;
    for (SnapshotSegment& segment : snapshot_.segments) {
      if (before != nullptr && before->device == segment.device &&
          segment.address - before->address < static_cast<std::uint64_t>(before->size.value())) {
        fail("/segments", "segments that overlap", "a memory snapshot");
      }
      before = &segment;
      order_blocks(segment);
    }
  }

  void order_blocks(SnapshotSegment& segment) {
    std::ranges::stable_sort(segment.blocks, {}, &SnapshotBlock::address);
    std::vector<SnapshotBlock> blocks;
    std::uint64_t next = segment.address;
    const auto fill_up_to = [&](std::uint64_t end) {
      if (end > next) {
        const Bytes gap{static_cast<std::int64_t>(end - next)};
        blocks.push_back({.address = next,
                          .size = gap,
                          .requested = gap,
                          .state = BlockState::kFree,
                          .stack = 0});
      }
    };
    const std::uint64_t end = segment.address + static_cast<std::uint64_t>(segment.size.value());
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.address < next ||
          block.address + static_cast<std::uint64_t>(block.size.value()) > end) {
        fail("/segments/blocks", "a block that overlaps another or leaves its segment",
             "a memory snapshot");
        return;
      }
      fill_up_to(block.address);
      blocks.push_back(block);
      next = block.address + static_cast<std::uint64_t>(block.size.value());
    }
    fill_up_to(end);
    segment.blocks = std::move(blocks);
  }

  const PickleDocument& document_;
  std::string_view file_;
  Snapshot snapshot_;
  StackTable stacks_;
  std::vector<Field> fields_;  ///< By the index of a text.
  std::size_t entries_ = 0;
  std::optional<Error> fault_;
};

}  // namespace

Result<Snapshot> read_snapshot(std::string bytes, std::string_view file) {
  const Result<PickleDocument> document = read_pickle(std::move(bytes), file);
  if (!document) {
    return document.error();
  }
  return SnapshotReader(*document, file).read();
}

}  // namespace headroom::check
