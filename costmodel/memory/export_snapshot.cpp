#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "costmodel/memory/event_replay.h"
#include "costmodel/memory/event_text.h"
#include "costmodel/memory/export.h"
#include "costmodel/memory/pickle_writer.h"

namespace headroom::cost {
namespace {

std::string_view action_name(TraceAction action) {
  switch (action) {
    case TraceAction::kAllocate:
      return "alloc";
    case TraceAction::kFree:
      return "free_completed";
    case TraceAction::kSegmentAllocate:
      return "segment_alloc";
    case TraceAction::kSegmentFree:
      return "segment_free";
    case TraceAction::kSegmentMap:
      return "segment_map";
    case TraceAction::kSegmentUnmap:
      return "segment_unmap";
    case TraceAction::kOutOfMemory:
      return "oom";
  }
  return "";
}

/// Writes a snapshot of one replay.
class SnapshotWriter {
 public:
  SnapshotWriter(const ir::RankProgram& program, const ir::AllocatorSettings& settings)
      : program_(program), settings_(settings), origins_(program.blocks) {
    for (std::size_t phase = 0; phase < program.phases.size(); ++phase) {
      find_origins(phase);
    }
  }

  std::string write(Bytes capacity) {
    AllocatorTrace trace;
    EventReplay run(program_, settings_, DeviceMemory{.capacity = capacity}, &trace);
    std::vector<std::size_t> ends;  // Length of `trace` after each event.
    for (std::size_t index = 0; index < program_.events.size(); ++index) {
      const bool served = run.step(index);
      ends.push_back(trace.size());
      if (!served) {
        break;
      }
    }
    out_.begin_dict();
    out_.text("segments");
    out_.begin_list();
    for (const SegmentView& segment : run.allocator().segments()) {
      write_segment(segment);
    }
    out_.end_list();
    out_.text("device_traces");
    out_.begin_list();
    write_trace(trace, ends);
    out_.end_list();
    out_.text("allocator_settings");
    write_settings();
    out_.text("external_annotations");
    out_.begin_list();
    out_.end_list();
    out_.end_dict();
    return out_.finish();
  }

 private:
  /// Site, role and phase of a block.
  struct Origin {
    std::uint32_t site = 0;
    ir::TensorRole role = ir::TensorRole::kTemporary;
    std::size_t phase = 0;
  };

  void find_origins(std::size_t phase) {
    const ir::Phase& events = program_.phases[phase];
    for (std::size_t index = events.begin; index < events.end; ++index) {
      const ir::Event& event = program_.events[index];
      const bool known = event.block < origins_.size();  // The replay ends at any other block.
      if (known && event.kind == ir::EventKind::kAllocate) {
        origins_[event.block] = {.site = event.site, .role = event.role, .phase = phase};
      }
    }
  }

  /// Writes a dict's key; its value follows.
  PickleWriter& key(std::string_view name) {
    out_.text(name);
    return out_;
  }

  void frame(std::string_view file, std::int64_t line, std::string_view name) {
    out_.begin_dict();
    key("filename").text(file);
    key("line").integer(line);
    key("name").text(name);
    out_.end_dict();
  }

  /// The "stack" of a block, innermost frame first; blocks of one origin share one list.
  void frames_of(const Origin& origin) {
    const std::uint64_t key = ((static_cast<std::uint64_t>(origin.site) * ir::kTensorRoleCount +
                                static_cast<std::uint64_t>(origin.role))
                               << 24) +
                              origin.phase;
    const auto known = frames_.find(key);
    if (known != frames_.end()) {
      out_.recall(known->second);
      return;
    }
    const std::optional<std::int32_t> layer = layer_of(program_, origin.site);
    out_.begin_list();
    frame(layer ? "layer" : "outside the layers", layer.value_or(0),
          operator_name(program_, origin.site));
    frame("role", 0, ir::name_of(origin.role));
    frame("phase", static_cast<std::int64_t>(origin.phase),
          origin.phase < program_.phases.size() ? to_text(program_.phases[origin.phase].name) : "");
    out_.end_list();
    frames_.emplace(key, out_.remember());
  }

  void no_frames() {
    out_.begin_list();
    out_.end_list();
  }

  void write_block(const BlockView& block) {
    out_.begin_dict();
    key("address").integer(block.address);
    key("size").integer(block.size);
    key("requested_size").integer(block.requested);
    key("state").text(block.live ? "active_allocated" : "inactive");
    out_.text("frames");
    if (block.live) {
      frames_of(origins_[block.block]);
    } else {
      no_frames();
    }
    out_.end_dict();
  }

  void write_segment(const SegmentView& segment) {
    std::int64_t allocated = 0;
    std::int64_t requested = 0;
    for (const BlockView& block : segment.blocks) {
      allocated += block.live ? block.size : 0;
      requested += block.requested;
    }
    out_.begin_dict();
    key("device").integer(0);
    key("address").integer(segment.address);
    key("total_size").integer(segment.size);
    key("allocated_size").integer(allocated);
    key("active_size").integer(allocated);
    key("requested_size").integer(requested);
    key("stream").integer(segment.stream);
    key("segment_type").text(segment.small ? "small" : "large");
    out_.text("segment_pool_id");
    out_.begin_tuple();
    out_.integer(0);
    out_.integer(0);
    out_.end_tuple();
    key("is_expandable").boolean(segment.expandable);
    out_.text("frames");
    no_frames();
    out_.text("blocks");
    out_.begin_list();
    for (const BlockView& block : segment.blocks) {
      write_block(block);
    }
    out_.end_list();
    out_.end_dict();
  }

  void write_trace(const AllocatorTrace& trace, const std::vector<std::size_t>& ends) {
    out_.begin_list();
    std::size_t entry = 0;
    for (std::size_t event = 0; event < ends.size(); ++event) {
      for (; entry < ends[event]; ++entry) {
        if (trace[entry].action == TraceAction::kFree) {
          write_entry("free_requested", trace[entry], event);
        }
        write_entry(action_name(trace[entry].action), trace[entry], event);
      }
    }
    out_.end_list();
  }

  void write_entry(std::string_view action, const TraceEntry& entry, std::size_t event) {
    out_.begin_dict();
    key("action").text(action);
    key(entry.action == TraceAction::kOutOfMemory ? "device_free" : "addr").integer(entry.address);
    key("size").integer(entry.size);
    key("stream").integer(entry.stream);
    key("time_us").integer(static_cast<std::int64_t>(event));
    key("compile_context").text("N/A");
    key("user_metadata").text("");
    out_.text("frames");
    const ir::Event& cause = program_.events[event];
    if (cause.kind == ir::EventKind::kEmptyCache) {
      no_frames();
    } else {
      frames_of(origins_[cause.block]);
    }
    out_.end_dict();
  }

  void write_settings() {
    out_.begin_dict();
    key("PYTORCH_CUDA_ALLOC_CONF").text("");
    key("expandable_segments").boolean(settings_.expandable_segments);
    key("max_split_size")
        .integer(settings_.max_split_size ? settings_.max_split_size->value() : -1);
    out_.text("garbage_collection_threshold");
    out_.real(settings_.garbage_collection_threshold);
    out_.text("roundup_power2_divisions");
    out_.begin_dict();
    constexpr int kIntervals = 16;  // From 1 MiB to 32 GiB, in MiB.
    for (int power = 0; power < kIntervals; ++power) {
      key(std::to_string(1 << power)).integer(settings_.roundup_power2_divisions);
    }
    out_.end_dict();
    out_.end_dict();
  }

  const ir::RankProgram& program_;
  const ir::AllocatorSettings& settings_;
  std::vector<Origin> origins_;  ///< By `BlockId`.
  PickleWriter out_;
  std::unordered_map<std::uint64_t, std::uint32_t> frames_;  ///< Only for lookups, never iterated.
};

}  // namespace

std::string memory_viz_pickle(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                              Bytes capacity) {
  return SnapshotWriter(program, settings).write(capacity);
}

}  // namespace headroom::cost
