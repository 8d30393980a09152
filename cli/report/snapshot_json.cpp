#include <string>
#include <utility>

#include "cli/report/snapshot_answer.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

/// "optimizer_states"
std::string use_key(check::BlockUse use) {
  std::string key(name_of(use));
  for (char& letter : key) {
    letter = letter == ' ' ? '_' : letter;
  }
  return key;
}

JsonValue use_json(const check::UseBytes& bytes) {
  JsonFields fields;
  for (std::size_t use = 0; use < bytes.size(); ++use) {
    fields.add(use_key(static_cast<check::BlockUse>(use)), bytes.at(use));
  }
  return std::move(fields).finish();
}

template <typename Item, typename Write>
JsonValue array_json(const std::vector<Item>& items, const Write& write) {
  JsonValue::Array array;
  array.reserve(items.size());
  for (const Item& item : items) {
    array.push_back(write(item));
  }
  return JsonValue{std::move(array)};
}

JsonValue bytes_array(const std::vector<Bytes>& items) {
  return array_json(items, [](Bytes bytes) { return JsonValue{bytes.value()}; });
}

/// Text of a file of somebody else, which may hold bytes that are no UTF-8.
JsonValue foreign(std::string_view text) {
  return JsonValue{printable(text)};
}

JsonValue peak_json(const check::DeviceSummary& summary) {
  const check::DeviceHistory& history = summary.history;
  JsonFields fields;
  fields.add("moment", history.events > 0 ? "history" : "now");
  fields.add("entry", history.events > 0
                          ? JsonValue{static_cast<std::int64_t>(history.peak_allocated.event)}
                          : JsonValue{});
  fields.add("allocated_bytes", history.peak_allocated.bytes);
  fields.add("reserved_bytes", history.reserved_at_peak);
  fields.add("phase", summary.peak_phase);
  fields.add("line", foreign(summary.peak_line));
  fields.add("by_use", use_json(summary.at_peak));
  return std::move(fields).finish();
}

JsonValue groups_json(const check::DeviceSummary& summary, const check::StackSorter& sorter) {
  constexpr std::size_t kMost = 100;
  JsonValue::Array array;
  for (const check::BlockGroup& group : summary.groups) {
    if (array.size() == kMost) {
      break;
    }
    JsonFields fields;
    fields.add("use", use_key(group.use));
    fields.add("requested_bytes", group.requested);
    fields.add("count", group.count);
    fields.add("bytes", group.bytes);
    fields.add("phase", sorter.phase_of(group.stack));
    fields.add("line", foreign(sorter.line_of(group.stack)));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue history_json(const check::DeviceHistory& history) {
  JsonFields fields;
  fields.add("entries", history.events);
  fields.add("whole", history.is_whole());
  fields.add("allocated_at_start_bytes", history.allocated_at_start);
  fields.add("reserved_at_start_bytes", history.reserved_at_start);
  fields.add("peak_reserved_bytes", history.peak_reserved.bytes);
  fields.add("unmatched", history.unmatched);
  fields.add("snapshots", history.snapshots);
  return std::move(fields).finish();
}

JsonValue out_of_memory_json(const check::DeviceHistory& history,
                             const check::StackSorter& sorter) {
  return array_json(history.out_of_memory, [&](const check::OutOfMemoryEvent& event) {
    JsonFields fields;
    fields.add("entry", event.event);
    fields.add("requested_bytes", event.requested);
    fields.add("device_free_bytes", event.device_free);
    fields.add("allocated_bytes", event.allocated);
    fields.add("reserved_bytes", event.reserved);
    fields.add("phase", sorter.phase_of(event.stack));
    fields.add("line", foreign(sorter.line_of(event.stack)));
    return std::move(fields).finish();
  });
}

JsonValue retries_json(const check::DeviceHistory& history, const check::StackSorter& sorter) {
  return array_json(history.retries, [&](const check::CacheRelease& retry) {
    JsonFields fields;
    fields.add("entry", retry.event);
    fields.add("released_bytes", retry.released);
    fields.add("line", foreign(sorter.line_of(retry.stack)));
    return std::move(fields).finish();
  });
}

JsonValue segment_json(const check::SegmentUse& segment) {
  JsonFields fields;
  fields.add("address", static_cast<std::int64_t>(segment.address));
  fields.add("bytes", segment.size);
  fields.add("active_bytes", segment.active);
  fields.add("largest_free_bytes", segment.largest_free);
  fields.add("free_blocks", segment.free_blocks);
  fields.add("small", segment.small);
  fields.add("expandable", segment.expandable);
  fields.add("private_pool", segment.private_pool);
  return std::move(fields).finish();
}

JsonValue fragmentation_json(const check::FragmentationUse& use) {
  JsonFields fields;
  fields.add("reserved_bytes", use.reserved);
  fields.add("active_bytes", use.active);
  fields.add("awaiting_free_bytes", use.awaiting_free);
  fields.add("rounding_bytes", use.rounding);
  fields.add("free_bytes", use.free());
  fields.add("unused_segments_bytes", use.in_whole);
  fields.add("largest_free_bytes", use.largest_free);
  fields.add("private_bytes", use.private_bytes);
  fields.add("segments", array_json(use.segments, segment_json));
  return std::move(fields).finish();
}

JsonValue growth_value(const check::Growth& growth) {
  JsonFields fields;
  fields.add("moments", array_json(growth.moments, foreign));
  fields.add("allocated_bytes", bytes_array(growth.allocated));
  fields.add("stacks", array_json(growth.stacks, [](const check::StackGrowth& stack) {
               JsonFields one;
               one.add("line", foreign(stack.line));
               one.add("frames", array_json(stack.frames, foreign));
               one.add("use", use_key(stack.use));
               one.add("bytes_per_step", stack.per_step());
               one.add("steady", stack.steady);
               one.add("bytes", bytes_array(stack.bytes));
               one.add("blocks", array_json(stack.blocks, [](std::size_t count) {
                         return JsonValue{static_cast<std::int64_t>(count)};
                       }));
               return std::move(one).finish();
             }));
  return std::move(fields).finish();
}

JsonValue differences_json(const std::vector<check::SizeDifference>& rest) {
  return array_json(rest, [](const check::SizeDifference& one) {
    JsonFields fields;
    fields.add("requested_bytes", one.requested);
    fields.add("count", one.count);
    fields.add("use", use_key(one.use));
    fields.add("name", foreign(one.name));
    return std::move(fields).finish();
  });
}

JsonValue comparison_value(const std::optional<check::PeakComparison>& comparison) {
  if (!comparison) {
    return JsonValue{};
  }
  JsonFields fields;
  fields.add("predicted_bytes", comparison->predicted);
  fields.add("measured_bytes", comparison->measured);
  fields.add("predicted_moment", comparison->predicted_moment);
  fields.add("predicted_by_use", use_json(comparison->predicted_by_use));
  fields.add("measured_by_use", use_json(comparison->measured_by_use));
  fields.add("matched", comparison->matched);
  fields.add("matched_bytes", comparison->matched_bytes);
  fields.add("only_predicted", differences_json(comparison->only_predicted));
  fields.add("only_measured", differences_json(comparison->only_measured));
  return std::move(fields).finish();
}

JsonValue settings_json(const check::Snapshot& snapshot) {
  return array_json(snapshot.settings, [](const check::SnapshotSetting& setting) {
    JsonFields fields;
    fields.add("name", foreign(setting.name));
    fields.add("value", foreign(setting.value));
    return std::move(fields).finish();
  });
}

}  // namespace

std::string snapshot_json(const SnapshotAnswer& answer, const check::StackSorter& sorter) {
  JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("file", foreign(answer.file));
  fields.add("against", answer.against.empty() ? JsonValue{} : foreign(answer.against));
  fields.add("settings", settings_json(answer.snapshot));
  fields.add("devices", array_json(answer.devices, [&](const DeviceAnswer& device) {
               JsonFields one;
               one.add("device", device.summary.history.device);
               one.add("history", history_json(device.summary.history));
               one.add("peak", peak_json(device.summary));
               one.add("largest", groups_json(device.summary, sorter));
               one.add("fragmentation", fragmentation_json(device.summary.fragmentation));
               one.add("out_of_memory", out_of_memory_json(device.summary.history, sorter));
               one.add("retries", retries_json(device.summary.history, sorter));
               one.add("leaks", growth_value(device.leaks));
               one.add("comparison", comparison_value(device.comparison));
               return std::move(one).finish();
             }));
  fields.add("growth", JsonValue{});
  fields.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(fields).finish()) + "\n";
}

std::string growth_json(const GrowthAnswer& answer) {
  JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("devices", JsonValue{JsonValue::Array{}});
  fields.add("growth", growth_value(answer.growth));
  fields.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(fields).finish()) + "\n";
}

}  // namespace headroom::cli
