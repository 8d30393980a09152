#include "validators/dryrun/report.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <system_error>
#include <tuple>

#include "model_ir/base/file.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/json/python_json.h"

namespace headroom::check {
namespace {

using ir::JsonObject;
using ir::JsonValue;

/// No GPU and no host has a pebibyte; sums of `kMostReportEntries` such values do not overflow.
constexpr ir::IntegerRange kSize{0, std::int64_t{1} << 50};
constexpr ir::IntegerRange kCount{0, std::int64_t{1} << 40};
constexpr std::size_t kMostReportEntries = 4'096;
constexpr std::size_t kMostPhases = 100'000;
constexpr std::size_t kMostReports = 65'536;
/// Phases, live blocks, stacks and a model's configuration of one process.
constexpr std::int64_t kReportLimit = 64 * kMiB;

constexpr std::array<std::string_view, kDryRunCategories> kCategories = {
    "parameters", "gradients", "optimizer states", "activations", "other"};
constexpr std::array<std::string_view, 4> kStops = {"steps", "end", "exception", "signal"};

Bytes size_of(const JsonObject& object, std::string_view key) {
  return Bytes{object.integer(key, kSize)};
}

Bytes size_or_none(const JsonObject& object, std::string_view key) {
  return Bytes{object.integer_or(key, 0, kSize)};
}

/// The objects of a list; a list that is too long is noted as a fault.
std::vector<JsonObject> entries_of(const JsonObject& object, std::string_view key,
                                   std::size_t most = kMostReportEntries) {
  std::vector<JsonObject> entries = object.objects_or_none(key);
  if (entries.size() > most) {
    object.refuse(key, "at most " + std::to_string(most) + " entries");
    entries.clear();
  }
  return entries;
}

DryRunPhase read_phase(const JsonObject& object, const JsonValue* value) {
  const JsonValue* const work = value == nullptr ? nullptr : value->find("work");
  object.accept("work");
  return {.name = object.text("name"),
          .step = object.integer_or("step", 0, kCount),
          .micro_batch = object.integer_or("micro_batch", 0, kCount),
          .allocated_before = size_or_none(object, "allocated_before"),
          .allocated_after = size_or_none(object, "allocated_after"),
          .peak_allocated = size_of(object, "peak_allocated"),
          .reserved_after = size_or_none(object, "reserved_after"),
          .peak_reserved = size_of(object, "peak_reserved"),
          .requested_after = size_or_none(object, "requested_after"),
          .peak_requested = size_or_none(object, "peak_requested"),
          .retries = object.integer_or("retries", 0, kCount),
          .seconds = object.number_or("seconds", 0, {.least = 0}),
          .work = work == nullptr ? JsonValue{} : *work};
}

std::vector<DryRunPhase> read_phases(const JsonObject& root, const JsonValue& value) {
  const JsonValue* const list = value.find("phases");
  const JsonValue::Array* const array = list == nullptr ? nullptr : list->as_array();
  std::vector<DryRunPhase> phases;
  for (const JsonObject& object : entries_of(root, "phases", kMostPhases)) {
    const std::size_t at = phases.size();
    phases.push_back(
        read_phase(object, array != nullptr && at < array->size() ? &(*array)[at] : nullptr));
  }
  return phases;
}

std::vector<DryRunBlocks> read_live(const JsonObject& object) {
  std::vector<DryRunBlocks> live;
  for (const JsonObject& entry : entries_of(object, "live")) {
    live.push_back({.bytes = size_of(entry, "bytes"),
                    .count = entry.integer_or("count", 1, kCount),
                    .frame = entry.text_or("frame", ""),
                    .category = dry_run_category(entry.text_or("category", "other"))});
  }
  std::ranges::stable_sort(live, std::ranges::greater{}, &DryRunBlocks::bytes);
  return live;
}

DryRunPeak read_peak(const JsonObject& object, std::size_t phases) {
  DryRunPeak peak{.phase = {},
                  .allocated = size_of(object, "allocated"),
                  .reserved = size_of(object, "reserved"),
                  .device = size_or_none(object, "device"),
                  .live = read_live(object)};
  const auto phase = object.optional_integer("phase", kCount);
  if (phase && *phase >= static_cast<std::int64_t>(phases)) {
    object.refuse("phase", "the index of one of " + std::to_string(phases) + " phases");
  } else if (phase) {
    peak.phase = static_cast<std::size_t>(*phase);
  }
  return peak;
}

DryRunOom read_oom(const JsonObject& object) {
  DryRunOom oom{.requested = size_of(object, "requested"),
                .free = size_or_none(object, "free"),
                .capacity = size_or_none(object, "capacity"),
                .allocated = size_or_none(object, "allocated"),
                .reserved = size_or_none(object, "reserved"),
                .phase = object.text_or("phase", ""),
                .step = object.integer_or("step", 0, kCount),
                .stack = object.texts_or_none("stack"),
                .live = read_live(object)};
  oom.stack.resize(std::min(oom.stack.size(), kMostReportEntries));
  return oom;
}

std::vector<DryRunCaught> read_caught(const JsonObject& root) {
  std::vector<DryRunCaught> caught;
  for (const JsonObject& entry : entries_of(root, "caught")) {
    caught.push_back({.requested = size_of(entry, "requested"),
                      .free = size_or_none(entry, "free"),
                      .allocated = size_or_none(entry, "allocated"),
                      .phase = entry.text_or("phase", ""),
                      .step = entry.integer_or("step", 0, kCount),
                      .batch = entry.integers_or_none("batch", kCount),
                      .where = entry.text_or("where", "")});
  }
  return caught;
}

DryRunStop read_stop(const JsonObject& root) {
  const std::string word = root.text("stopped");
  const auto found = std::ranges::find(kStops, word);
  if (found == kStops.end()) {
    root.refuse("stopped", "steps, end, exception or signal");
    return DryRunStop::kEnd;
  }
  return static_cast<DryRunStop>(found - kStops.begin());
}

void read_remarks(const JsonObject& root, DryRunReport& report) {
  for (const JsonObject& guess : entries_of(root, "guesses")) {
    report.guesses.push_back({.what = guess.text("what"),
                              .times = guess.integer_or("times", 1, kCount),
                              .where = guess.text_or("where", "")});
  }
  for (const JsonObject& refusal : entries_of(root, "refused")) {
    report.refused.push_back(
        {.function = refusal.text("function"), .times = refusal.integer_or("times", 1, kCount)});
  }
  if (const auto exception = root.optional_object("exception")) {
    report.exception = DryRunException{.type = exception->text_or("type", ""),
                                       .message = exception->text_or("message", ""),
                                       .where = exception->text_or("where", "")};
  }
  if (const auto versions = root.optional_object("versions")) {
    for (const std::string& key : versions->keys()) {
      if (versions->has(key)) {
        report.versions.emplace_back(key, versions->text(key));
      }
    }
  }
}

DryRunReport read_root(const JsonObject& root, const JsonValue& value) {
  DryRunReport report;
  if (root.integer("version", kCount) != 1) {
    root.refuse("version", "1", "use the libraries and the Python files of this headroom");
  }
  report.process = root.integer_or("pid", 0, kCount);
  report.arguments = root.texts_or_none("argv");
  report.rank = root.optional_integer("rank", kCount);
  report.world = root.optional_integer("world", kCount);
  if (const auto device = root.optional_object("device")) {
    report.device = device->text_or("name", "");
    report.device_total = size_or_none(*device, "bytes");
  }
  report.phases = read_phases(root, value);
  if (const auto peak = root.optional_object("peak")) {  // Absent if nothing was allocated.
    report.peak = read_peak(*peak, report.phases.size());
  }
  if (const auto oom = root.optional_object("oom")) {
    report.oom = read_oom(*oom);
  }
  report.caught = read_caught(root);
  report.stopped = read_stop(root);
  read_remarks(root, report);
  if (const auto host = root.optional_object("host")) {
    report.host_peak = size_or_none(*host, "rss_peak");
    report.pinned_peak = size_or_none(*host, "pinned_peak");
  }
  const JsonValue* const program = value.find("program");
  report.program = program == nullptr ? JsonValue{} : *program;
  return report;
}

/// Ranks in their order, those without a rank last, equal ones by file.
auto report_order(const DryRunReport& report) {
  return std::tuple(!report.rank.has_value(), report.rank.value_or(0),
                    std::string_view(report.file));
}

}  // namespace

std::string_view dry_run_category(std::size_t index) {
  return kCategories.at(index);
}

std::size_t dry_run_category(std::string_view name) {
  const auto found = std::ranges::find(kCategories, name);
  return found == kCategories.end() ? kDryRunCategories - 1
                                    : static_cast<std::size_t>(found - kCategories.begin());
}

std::string_view name_of(DryRunStop stop) {
  return kStops.at(static_cast<std::size_t>(stop));
}

Result<DryRunReport> parse_report(std::string_view text, std::string_view file) {
  const Result<JsonValue> value = ir::JsonReader::parse_root(ir::json_of_python(text), file);
  if (!value) {
    return value.error();
  }
  const ir::JsonReader reader =
      ir::JsonReader::from_root(std::make_shared<const JsonValue>(*value), file);
  DryRunReport report = read_root(reader.root(), *value);
  report.file = std::string(file);
  if (Status status = reader.finish(); !status) {
    return std::move(status).error();
  }
  return report;
}

Result<std::vector<DryRunReport>> read_reports(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault)) {
    if (at->path().extension() == ".json" && paths.size() < kMostReports) {
      paths.push_back(at->path().string());
    }
  }
  std::ranges::sort(paths);
  std::vector<DryRunReport> reports;
  for (const std::string& path : paths) {
    const Result<std::string> text = read_file(path, kReportLimit);
    if (!text) {
      return text.error();
    }
    Result<DryRunReport> report = parse_report(*text, path);
    if (!report) {
      return std::move(report).error().with_note(
          "the report of a process of the program is damaged: please report it with the command "
          "line and the release of PyTorch");
    }
    reports.push_back(std::move(report).value());
  }
  std::ranges::sort(reports, {}, report_order);
  return reports;
}

std::size_t binding_report(const std::vector<DryRunReport>& reports) {
  HEADROOM_ASSERT(!reports.empty());
  const auto key = [](const DryRunReport& report) {
    return std::tuple(report.oom.has_value(), report.peak.reserved, report.peak.allocated);
  };
  const auto found = std::ranges::max_element(
      reports, [&key](const DryRunReport& a, const DryRunReport& b) { return key(a) < key(b); });
  return static_cast<std::size_t>(found - reports.begin());
}

}  // namespace headroom::check
