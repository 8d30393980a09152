#include <algorithm>
#include <cmath>
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

using check::MemoryUse;
using check::UseTrend;

constexpr std::size_t kMostUseLines = 12;

/// "GPU 0 (NVIDIA H100 80GB HBM3)", "process 1234 (python) on GPU 0".
std::string use_name(const MemoryUse& use) {
  std::string text = use.process ? "process " + std::to_string(*use.process) : "GPU " + use.gpu;
  text += use.name.empty() ? "" : " (" + use.name + ")";
  return printable(text + (use.process && !use.gpu.empty() ? " on GPU " + use.gpu : ""));
}

/// "-12.0 MiB an hour".
std::string rate_text(double per_hour) {
  const auto bytes = static_cast<std::int64_t>(std::abs(per_hour));
  return (per_hour < 0 ? "-" : "+") + to_text(Bytes{bytes}) + " an hour";
}

std::string use_lines(const MemoryUse& use, const Terminal& terminal) {
  const UseTrend trend = check::trend_of(use);
  std::string text = "peak " + to_text(trend.peak.used);
  if (use.total) {
    text += " of " + to_text(*use.total);
  }
  text += ", at reading " + std::to_string(trend.peak.reading + 1) + "; from " +
          to_text(trend.first) + " to " + to_text(trend.last) + " in " +
          counted(use.samples.size(), "reading");
  if (trend.per_hour) {
    text += " (" + rate_text(*trend.per_hour) + ")";
  }
  if (trend.grows) {
    text += "; it grows: the highest of each quarter of the log is above that before";
  }
  return "  " + wrap(use_name(use) + ": " + text, terminal.width - 2, 4) + "\n";
}

/// The uses with the highest peaks first.
std::vector<const MemoryUse*> by_peak(const std::vector<MemoryUse>& uses) {
  std::vector<const MemoryUse*> order;
  for (const MemoryUse& use : uses) {
    order.push_back(&use);
  }
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [](const MemoryUse* use) { return check::trend_of(*use).peak.used; });
  return order;
}

std::string use_section(std::string_view title, const std::vector<MemoryUse>& uses,
                        const Terminal& terminal) {
  if (uses.empty()) {
    return {};
  }
  std::string text = heading(terminal, title);
  const std::vector<const MemoryUse*> order = by_peak(uses);
  for (std::size_t at = 0; at < std::min(order.size(), kMostUseLines); ++at) {
    text += use_lines(*order[at], terminal);
  }
  if (order.size() > kMostUseLines) {
    text +=
        "  " + counted(order.size() - kMostUseLines, "other one") + " left out (--json has all)\n";
  }
  return text;
}

ir::JsonValue uses_json(const std::vector<MemoryUse>& uses) {
  ir::JsonValue::Array array;
  for (const MemoryUse* use : by_peak(uses)) {
    const UseTrend trend = check::trend_of(*use);
    ir::JsonFields fields;
    fields.add("gpu", printable(use->gpu));
    fields.add("name", printable(use->name));
    fields.add("process", use->process ? ir::JsonValue{*use->process} : ir::JsonValue{});
    fields.add("total_bytes", use->total ? ir::JsonValue{use->total->value()} : ir::JsonValue{});
    fields.add("readings", use->samples.size());
    fields.add("peak_bytes", trend.peak.used);
    fields.add("peak_reading", trend.peak.reading);
    fields.add("first_bytes", trend.first);
    fields.add("last_bytes", trend.last);
    ir::JsonValue::Array quarters;
    for (const Bytes quarter : trend.quarters) {
      quarters.emplace_back(quarter.value());
    }
    fields.add("quarter_peaks_bytes", ir::JsonValue{std::move(quarters)});
    fields.add("bytes_per_hour", trend.per_hour ? ir::JsonValue{*trend.per_hour} : ir::JsonValue{});
    fields.add("grows", trend.grows);
    array.push_back(std::move(fields).finish());
  }
  return ir::JsonValue{std::move(array)};
}

}  // namespace

std::string gpu_log_text(const GpuLogAnswer& answer, const Terminal& terminal) {
  const std::string what = answer.log.source == "Nsight Systems"
                               ? "device memory that CUDA allocated, without its context"
                               : "all memory of the GPU or process, not only PyTorch's";
  const std::string title = printable(answer.file) + ": " + answer.log.source + ", " + what;
  return styled(terminal, Style::kStrong, wrap(title, terminal.width, 2)) + "\n" +
         use_section("GPUs", answer.log.gpus, terminal) +
         use_section("processes", answer.log.processes, terminal);
}

std::string gpu_log_json(const GpuLogAnswer& answer) {
  ir::JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("file", printable(answer.file));
  fields.add("devices", ir::JsonValue{ir::JsonValue::Array{}});
  fields.add("growth", ir::JsonValue{});
  ir::JsonFields use;
  use.add("source", answer.log.source);
  use.add("gpus", uses_json(answer.log.gpus));
  use.add("processes", uses_json(answer.log.processes));
  use.add("skipped_rows", answer.log.skipped);
  fields.add("use", std::move(use));
  fields.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(fields).finish()) + "\n";
}

}  // namespace headroom::cli
