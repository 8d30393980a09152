#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>

#include "cli/report/snapshot_answer.h"
#include "cli/scalars.h"
#include "model_ir/base/counted.h"
#include "model_ir/base/error.h"

namespace headroom::cli {
namespace {

using check::BlockUse;
using check::DeviceHistory;
using check::StackSorter;

constexpr std::size_t kUseColumns = 18;
constexpr std::size_t kBytesColumns = 10;
/// Columns of a count, a size and a use.
constexpr std::size_t kRowColumns = 2 + 5 + 3 + kBytesColumns + 2 + kUseColumns;
constexpr std::size_t kMostBlockGroups = 6;
constexpr std::size_t kMostSegments = 3;
constexpr std::size_t kMostGrowing = 8;
constexpr std::size_t kMostDifferences = 5;
constexpr std::size_t kMostOutOfMemory = 3;

std::string whole_number(std::size_t count) {
  return with_commas(static_cast<std::int64_t>(count));
}

/// "entry 75 of 229"
std::string entry_text(std::size_t event, const DeviceHistory& history) {
  return "entry " + whole_number(event + 1) + " of " + whole_number(history.events);
}

/// " in optimizer, train.py:12 step"
std::string place_text(std::string_view phase, std::string_view line) {
  return (phase.empty() ? "" : ", " + std::string(phase)) +
         (line.empty() ? "" : ": " + printable(line));
}

/// A line of code cut to what is left of a row.
std::string fitted(const std::string& line, std::size_t taken, const Terminal& terminal) {
  const std::size_t room = terminal.width - taken;
  const std::string text = printable(line);
  return columns_of(text) <= room ? text : text.substr(0, room - 3) + "...";
}

std::string history_sentence(const DeviceHistory& history) {
  if (history.events == 0) {
    return "no history was recorded: this is the moment when the snapshot was taken";
  }
  std::string text =
      counted(static_cast<std::int64_t>(history.events), "entry", "entries") + " of history";
  if (history.is_whole()) {
    text += ", from the first allocation on";
  } else {
    text += "; it begins with " + to_text(history.allocated_at_start) + " allocated and " +
            to_text(history.reserved_at_start) +
            " reserved, and a higher peak before would not be in it";
  }
  if (history.unmatched > 0) {
    text += "; " + counted(static_cast<std::int64_t>(history.unmatched), "release", "releases") +
            " missing";
  }
  return text;
}

std::string device_headline(const SnapshotAnswer& answer, const DeviceAnswer& device,
                            const Terminal& terminal) {
  const DeviceHistory& history = device.summary.history;
  std::string name = printable(answer.file);
  if (answer.devices.size() > 1) {
    name += ", device " + std::to_string(history.device);
  }
  const std::string when = history.events > 0 ? "at the peak " : "";
  std::string text = name + ": " + when + to_text(history.peak_allocated.bytes) + " allocated, " +
                     to_text(history.reserved_at_peak) + " reserved";
  if (!history.out_of_memory.empty()) {
    const std::size_t times = history.out_of_memory.size();
    text += std::string("; it ran out of memory") +
            (times > 1 ? " " + whole_number(times) + " times" : "");
  }
  return styled(terminal, Style::kStrong, wrap(text, terminal.width, 2)) + "\n" +
         styled(terminal, Style::kFaint, wrap(history_sentence(history), terminal.width - 2, 2)) +
         "\n";
}

std::string settings_line(const check::Snapshot& snapshot, const Terminal& terminal) {
  for (const check::SnapshotSetting& setting : snapshot.settings) {
    if (setting.name.ends_with("ALLOC_CONF")) {
      const std::string value = setting.value.empty() ? "the defaults" : printable(setting.value);
      return styled(terminal, Style::kFaint,
                    wrap("allocator settings: " + value, terminal.width - 2, 2)) +
             "\n";
    }
  }
  return {};
}

TableUnit unit_of(Bytes largest) {
  return unit_of_bytes(static_cast<double>(largest.value()));
}

std::string peak_table(const DeviceAnswer& device, const Terminal& terminal) {
  const check::DeviceSummary& summary = device.summary;
  const DeviceHistory& history = summary.history;
  std::string title = "alive now";
  if (history.events > 0) {
    title = "alive at the peak, after " + entry_text(history.peak_allocated.event, history) +
            place_text(summary.peak_phase, summary.peak_line);
  }
  std::string text = heading(terminal, wrap(title, terminal.width - 2, 2));
  std::array<std::size_t, check::kBlockUseCount> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t use) { return summary.at_peak.at(use); });
  const Bytes peak = history.peak_allocated.bytes;
  const auto whole = static_cast<double>(std::max(peak.value(), std::int64_t{1}));
  const std::size_t room = terminal.width - kUseColumns - kBytesColumns - 4;
  for (const std::size_t use : order) {
    const Bytes bytes = summary.at_peak.at(use);
    if (bytes > Bytes{0}) {
      text += "  " + pad_right(name_of(static_cast<BlockUse>(use)), kUseColumns) +
              pad_left(table_figure(bytes, unit_of(peak)), kBytesColumns) + "  " +
              bar(terminal, static_cast<double>(bytes.value()) / whole, room) + "\n";
    }
  }
  return text;
}

std::string group_rows(const DeviceAnswer& device, const StackSorter& sorter,
                       const Terminal& terminal) {
  const std::vector<check::BlockGroup>& groups = device.summary.groups;
  std::string text = groups.empty() ? "" : heading(terminal, "the largest blocks among them");
  for (std::size_t at = 0; at < std::min(groups.size(), kMostBlockGroups); ++at) {
    const check::BlockGroup& group = groups[at];
    const std::string line = sorter.line_of(group.stack);
    text += "  " + pad_left(whole_number(group.count), 5) + " x " +
            pad_left(to_text(group.requested), kBytesColumns) + "  " +
            pad_right(name_of(group.use), kUseColumns) +
            (line.empty() ? "no stack recorded" : fitted(line, kRowColumns, terminal)) + "\n";
  }
  return text;
}

std::string figure_row(std::string_view name, Bytes bytes, const std::string& remark,
                       const Terminal& terminal) {
  constexpr std::size_t kNameColumns = 26;
  const std::size_t indent = kNameColumns + kBytesColumns + 4;
  return "  " + pad_right(name, kNameColumns) + pad_left(to_text(bytes), kBytesColumns) +
         (remark.empty() ? "" : "  " + wrap(remark, terminal.width - indent, indent)) + "\n";
}

std::string segment_text(const check::SegmentUse& segment) {
  std::string text = "segment of " + to_text(segment.size) + ": " + to_text(segment.active) +
                     " in use, " + to_text(segment.size - segment.active) + " free in " +
                     counted(static_cast<std::int64_t>(segment.free_blocks), "block") +
                     ", the largest " + to_text(segment.largest_free);
  text += segment.expandable ? ", expandable" : "";
  text += segment.private_pool ? ", private pool" : "";
  text += segment.stream != 0 ? ", of another stream" : "";
  return text;
}

std::string fragmentation_table(const DeviceAnswer& device, const Terminal& terminal) {
  const check::FragmentationUse& use = device.summary.fragmentation;
  std::string text = heading(terminal, "what PyTorch holds when the snapshot was taken");
  text += figure_row("reserved", use.reserved,
                     "in " + counted(static_cast<std::int64_t>(use.segments.size()), "segment") +
                         (use.expandable_segments > 0
                              ? ", " + whole_number(use.expandable_segments) + " expandable"
                              : ""),
                     terminal);
  text += figure_row("in use", use.active,
                     use.awaiting_free > Bytes{0}
                         ? to_text(use.awaiting_free) + " of it waits for another stream"
                         : "",
                     terminal);
  text += figure_row("free", use.free(),
                     "largest block " + to_text(use.largest_free) + "; " + to_text(use.in_whole) +
                         " in unused segments, which empty_cache() returns",
                     terminal);
  if (use.private_segments > 0) {
    text += figure_row("in private pools", use.private_bytes,
                       "of CUDA graphs or torch.cuda.MemPool", terminal);
  }
  for (std::size_t at = 0; at < std::min(use.segments.size(), kMostSegments); ++at) {
    const check::SegmentUse& segment = use.segments[at];
    if (segment.active > Bytes{0} && segment.size > segment.active) {
      text += "  " + wrap(segment_text(segment), terminal.width - 4, 4) + "\n";
    }
  }
  return text;
}

std::string events_text(const DeviceAnswer& device, const StackSorter& sorter,
                        const Terminal& terminal) {
  const DeviceHistory& history = device.summary.history;
  std::string text;
  const auto add = [&](const std::string& line) {
    text += "  " + wrap(line, terminal.width - 4, 4) + "\n";
  };
  for (std::size_t at = 0; at < std::min(history.out_of_memory.size(), kMostOutOfMemory); ++at) {
    const check::OutOfMemoryEvent& event = history.out_of_memory[at];
    add("out of memory at " + entry_text(event.event, history) + ": " + to_text(event.requested) +
        " asked for with " + to_text(event.allocated) + " allocated, " + to_text(event.reserved) +
        " reserved and " + to_text(event.device_free) + " free on the device" +
        place_text(sorter.phase_of(event.stack), sorter.line_of(event.stack)));
  }
  if (history.out_of_memory.size() > kMostOutOfMemory) {
    add(whole_number(history.out_of_memory.size() - kMostOutOfMemory) +
        " more times out of memory (--json has all)");
  }
  if (!history.retries.empty()) {
    Bytes released;
    for (const check::CacheRelease& retry : history.retries) {
      released += retry.released;
    }
    add("PyTorch gave " + to_text(released) + " of cached memory back to serve a request, in " +
        counted(static_cast<std::int64_t>(history.retries.size()), "attempt") +
        ": each waits for the GPU");
  }
  if (history.snapshots > 0) {
    add(counted(static_cast<std::int64_t>(history.snapshots), "snapshot") +
        " taken during the history");
  }
  return text.empty() ? text : heading(terminal, "what happened") + text;
}

std::string growth_rows(const check::Growth& growth) {
  std::string text;
  for (std::size_t at = 0; at < std::min(growth.stacks.size(), kMostGrowing); ++at) {
    const check::StackGrowth& stack = growth.stacks[at];
    const Bytes step = stack.per_step();
    text += "  " + pad_left(to_text(step), kBytesColumns) + "  " +
            pad_right(name_of(stack.use), kUseColumns) +
            (stack.line.empty() ? "no stack recorded" : printable(stack.line)) +
            (stack.steady ? "" : ", not in every step") + "\n";
    text += "              " + to_text(stack.bytes.front()) + " in " +
            counted(static_cast<std::int64_t>(stack.blocks.front()), "block") + " at first, " +
            to_text(stack.bytes.back()) + " in " +
            counted(static_cast<std::int64_t>(stack.blocks.back()), "block") + " at last\n";
  }
  if (growth.stacks.size() > kMostGrowing) {
    text += "  " + whole_number(growth.stacks.size() - kMostGrowing) +
            " more stacks grow (--json has all)\n";
  }
  return text;
}

std::string leaks_text(const DeviceAnswer& device, const Terminal& terminal) {
  const check::Growth& leaks = device.leaks;
  if (leaks.moments.empty()) {
    return {};
  }
  const std::string range = leaks.moments.front() + " to " + leaks.moments.back();
  if (leaks.stacks.empty()) {
    return heading(terminal, "leaks") + "  none: no stack grows in every step, " + range + "\n";
  }
  return heading(terminal, "leaks: what grows in every step, " + range + ", bytes per step") +
         growth_rows(leaks);
}

std::string difference_rows(const std::vector<check::SizeDifference>& rest, std::string_view title,
                            const Terminal& terminal) {
  std::string text = rest.empty() ? "" : heading(terminal, title);
  for (std::size_t at = 0; at < std::min(rest.size(), kMostDifferences); ++at) {
    const check::SizeDifference& one = rest[at];
    text += "  " + pad_left(whole_number(one.count), 5) + " x " +
            pad_left(to_text(one.requested), kBytesColumns) + "  " +
            pad_right(name_of(one.use), kUseColumns) + fitted(one.name, kRowColumns, terminal) +
            "\n";
  }
  return text;
}

std::string signed_text(Bytes difference) {
  return difference < Bytes{0} ? "-" + to_text(-difference)
                               : (difference > Bytes{0} ? "+" : "") + to_text(difference);
}

std::string comparison_rows(const SnapshotAnswer& answer, const DeviceAnswer& device,
                            const Terminal& terminal) {
  if (!device.comparison) {
    return {};
  }
  const check::PeakComparison& both = *device.comparison;
  constexpr std::size_t kColumns = 13;
  std::string text = heading(terminal, "against " + printable(answer.against) +
                                           ", predicted peak in " + both.predicted_moment);
  text += "  " + pad_right("", kUseColumns) + pad_left("predicted", kColumns) +
          pad_left("measured", kColumns) + pad_left("difference", kColumns) + "\n";
  const auto row = [&](std::string_view name, Bytes predicted, Bytes measured) {
    text += "  " + pad_right(name, kUseColumns) + pad_left(to_text(predicted), kColumns) +
            pad_left(to_text(measured), kColumns) +
            pad_left(signed_text(measured - predicted), kColumns) + "\n";
  };
  row("all", both.predicted, both.measured);
  for (std::size_t use = 0; use < check::kBlockUseCount; ++use) {
    const Bytes predicted = both.predicted_by_use.at(use);
    const Bytes measured = both.measured_by_use.at(use);
    if (predicted > Bytes{0} || measured > Bytes{0}) {
      row(name_of(static_cast<BlockUse>(use)), predicted, measured);
    }
  }
  text += "  " + counted(static_cast<std::int64_t>(both.matched), "block") +
          " of the same size in both, " + to_text(both.matched_bytes) + "\n";
  return text + difference_rows(both.only_predicted, "only in the prediction", terminal) +
         difference_rows(both.only_measured, "only in the snapshot", terminal);
}

}  // namespace

std::string snapshot_text(const SnapshotAnswer& answer, const StackSorter& sorter,
                          const Terminal& terminal) {
  std::string text;
  for (const DeviceAnswer& device : answer.devices) {
    text += text.empty() ? "" : "\n";
    text += device_headline(answer, device, terminal) + settings_line(answer.snapshot, terminal) +
            peak_table(device, terminal) + group_rows(device, sorter, terminal) +
            events_text(device, sorter, terminal) + leaks_text(device, terminal) +
            fragmentation_table(device, terminal) + comparison_rows(answer, device, terminal);
  }
  return text.empty() ? printable(answer.file) + ": PyTorch held no memory on any GPU\n" : text;
}

std::string growth_text(const GrowthAnswer& answer, const Terminal& terminal) {
  const check::Growth& growth = answer.growth;
  const Bytes more = growth.allocated.back() - growth.allocated.front();
  std::string text =
      styled(terminal, Style::kStrong,
             wrap("from " + printable(growth.moments.front()) + " to " +
                      printable(growth.moments.back()) + ": " + signed_text(more) + " allocated",
                  terminal.width, 2));
  text += "\n";
  for (std::size_t at = 0; at < growth.moments.size(); ++at) {
    text += "  " + pad_left(to_text(growth.allocated[at]), kBytesColumns) + "  " +
            printable(growth.moments[at]) + "\n";
  }
  if (growth.stacks.empty()) {
    return text + heading(terminal, "what grows") + "  nothing: no stack has more at the end\n";
  }
  return text + heading(terminal, "what grows, bytes per step from file to file") +
         growth_rows(growth);
}

}  // namespace headroom::cli
