#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "cli/report/snapshot_answer.h"
#include "cli/scalars.h"
#include "model_ir/base/counted.h"
#include "model_ir/base/error.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

using check::AllocatorStats;
using check::StatBytes;

ir::JsonValue stat_json(const StatBytes& stat) {
  ir::JsonFields fields;
  fields.add("current_bytes", stat.current);
  fields.add("peak_bytes", stat.peak);
  fields.add("allocated_bytes", stat.allocated);
  fields.add("freed_bytes", stat.freed);
  return std::move(fields).finish();
}

std::string stat_row(std::string_view name, const StatBytes& stat) {
  constexpr std::size_t kNameColumns = 34;
  constexpr std::size_t kStatColumns = 12;
  return "  " + pad_right(name, kNameColumns) + pad_left(to_text(stat.current), kStatColumns) +
         pad_left(to_text(stat.peak), kStatColumns) + "\n";
}

/// What the figures say about fragmentation, retries and running out of memory.
std::string said_by(const AllocatorStats& stats, const Terminal& terminal) {
  std::string text;
  const auto add = [&](const std::string& line) {
    text += "  " + wrap(line, terminal.width - 4, 4) + "\n";
  };
  if (stats.out_of_memory > 0) {
    add("memory ran out " + counted(stats.out_of_memory, "time"));
  }
  if (stats.retries > 0) {
    add(counted(stats.retries, "request") + (stats.retries == 1 ? " was" : " were") +
        " served or refused only after PyTorch had given its cached memory back");
  }
  const Bytes rest = stats.reserved.peak - std::min(stats.allocated.peak, stats.reserved.peak);
  add(to_text(rest) +
      " of the peak of reserved memory were not allocated at the peak of "
      "allocated memory: cached blocks and fragmentation");
  return text;
}

}  // namespace

std::string stats_text(const StatsAnswer& answer, const Terminal& terminal) {
  const AllocatorStats& last = answer.stats.back();
  std::string title = printable(answer.file) + ": peak " + to_text(last.allocated.peak) +
                      " allocated, " + to_text(last.reserved.peak) + " reserved";
  std::string text = styled(terminal, Style::kStrong, wrap(title, terminal.width, 2)) + "\n";
  const std::string which =
      answer.stats.size() > 1
          ? "the last of " +
                counted(static_cast<std::int64_t>(answer.stats.size()), "summary", "summaries")
          : "statistics of the allocator, without blocks: a memory snapshot has those";
  text += styled(terminal, Style::kFaint, wrap(which, terminal.width - 2, 2)) + "\n";
  text += heading(terminal, "                                           now        peak");
  text += stat_row("allocated", last.allocated) + stat_row("active", last.active) +
          (last.requested.peak > Bytes{0} ? stat_row("asked for, before rounding", last.requested)
                                          : "") +
          stat_row("reserved", last.reserved) +
          stat_row("free in segments partly in use", last.inactive_split);
  text += heading(terminal, "what follows") + said_by(last, terminal);
  if (const auto first = std::ranges::find(answer.stats, last.device, &AllocatorStats::device);
      &*first != &last) {
    const Bytes more = last.allocated.current - first->allocated.current;
    text += "  " +
            wrap("from the first to the last summary of this GPU, allocated memory went from " +
                     to_text(first->allocated.current) + " to " + to_text(last.allocated.current) +
                     (more > Bytes{0} ? ": several memory snapshots show what grows" : ""),
                 terminal.width - 4, 4) +
            "\n";
  }
  return text;
}

std::string stats_json(const StatsAnswer& answer) {
  ir::JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("file", printable(answer.file));
  fields.add("devices", ir::JsonValue{ir::JsonValue::Array{}});
  fields.add("growth", ir::JsonValue{});
  ir::JsonValue::Array all;
  for (const AllocatorStats& stats : answer.stats) {
    ir::JsonFields one;
    one.add("device", stats.device >= 0 ? ir::JsonValue{stats.device} : ir::JsonValue{});
    one.add("allocated", stat_json(stats.allocated));
    one.add("active", stat_json(stats.active));
    one.add("requested", stat_json(stats.requested));
    one.add("reserved", stat_json(stats.reserved));
    one.add("inactive_split", stat_json(stats.inactive_split));
    one.add("retries", stats.retries);
    one.add("out_of_memory", stats.out_of_memory);
    all.push_back(std::move(one).finish());
  }
  fields.add("statistics", ir::JsonValue{std::move(all)});
  fields.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(fields).finish()) + "\n";
}

}  // namespace headroom::cli
