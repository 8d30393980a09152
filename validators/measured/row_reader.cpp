#include "validators/measured/row_reader.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <utility>

#include "validators/measured/file_bytes.h"

namespace headroom::check {
namespace {

using ir::JsonValue;

constexpr std::array<std::string_view, 4> kEndings = {".jsonl.gz", ".json.gz", ".jsonl", ".json"};

/// The position of a row, for messages: the file, and a line or a JSON pointer.
struct Place {
  std::string file;
  std::string at;

  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the order of `Error::invalid_input`.
  [[nodiscard]] Error error(std::string_view key, std::string_view got,
                            std::string_view wanted) const {
    const std::string inside = key.empty() ? std::string() : ": " + std::string(key);
    return Error::invalid_input(file, at + inside, got, wanted);
  }
};

struct MetricKey {
  std::string_view key;
  Metric metric;
};
constexpr std::array<MetricKey, 6> kPhaseKeys = {{{"allocated_after", Metric::kAllocatedAfter},
                                                  {"peak_allocated", Metric::kPeakAllocated},
                                                  {"peak_reserved", Metric::kPeakReserved},
                                                  {"reserved_after", Metric::kReservedAfter},
                                                  {"peak_active", Metric::kPeakActive},
                                                  {"retries", Metric::kRetries}}};
constexpr std::array<MetricKey, 2> kWorkKeys = {
    {{"gemm_flops", Metric::kGemmFlops}, {"kernels", Metric::kKernels}}};

bool is_absent(const JsonValue* value) {
  return value == nullptr || value->is_null();
}

/// Appends `from[key]` for each key that exists. A value that is not a count is an error.
Status read_values(const JsonValue& from, std::span<const MetricKey> keys, const Place& place,
                   std::vector<MetricValue>& values) {
  for (const MetricKey& wanted : keys) {
    const JsonValue* value = from.find(wanted.key);
    if (is_absent(value)) {
      continue;
    }
    const auto number = value->as_number();
    if (!number || *number < 0) {
      return place.error(wanted.key, ir::to_json(*value), "a number from 0");
    }
    values.push_back({wanted.metric, *number});
  }
  return ok();
}

/// Sums up [operation, ranks, calls, bytes] over the collectives of a phase.
Status read_collectives(const JsonValue& list, const Place& place,
                        std::vector<MetricValue>& values) {
  const JsonValue::Array* items = list.as_array();
  double calls = 0;
  double bytes = 0;
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
    const JsonValue::Array* item = (*items)[i].as_array();
    const auto n = item != nullptr && item->size() == 4 ? (*item)[2].as_number() : std::nullopt;
    const auto b = item != nullptr && item->size() == 4 ? (*item)[3].as_number() : std::nullopt;
    if (!n || !b) {
      return place.error("work/collectives/" + std::to_string(i), ir::to_json((*items)[i]),
                         "[operation, ranks, calls, bytes]");
    }
    calls += *n;
    bytes += *b;
  }
  if (items == nullptr) {
    return place.error("work/collectives", ir::to_json(list), "a list");
  }
  values.push_back({Metric::kCollectiveBytes, bytes});
  values.push_back({Metric::kCollectiveCalls, calls});
  return ok();
}

Status read_seconds(const JsonValue& value, std::string_view key, const Place& place,
                    double& seconds) {
  const JsonValue* given = value.find(key);
  if (is_absent(given)) {
    return ok();
  }
  seconds = given->as_number().value_or(0);
  return seconds > 0 ? ok() : place.error(key, ir::to_json(*given), "a time, more than zero");
}

Result<MeasuredPhase> read_phase(const JsonValue& value, const Place& place) {
  const JsonValue* name = value.find("phase");
  if (name == nullptr || name->as_string() == nullptr) {
    return place.error({}, "a phase without a name", R"(an object with "phase")");
  }
  MeasuredPhase phase{.name = ir::parse_phase_name(*name->as_string()), .values = {}, .seconds = 0};
  if (Status read = read_values(value, kPhaseKeys, place, phase.values); !read) {
    return std::move(read).error();
  }
  if (Status read = read_seconds(value, "seconds", place, phase.seconds); !read) {
    return std::move(read).error();
  }
  const JsonValue* work = value.find("work");
  if (is_absent(work)) {
    return phase;
  }
  if (Status read = read_values(*work, kWorkKeys, place, phase.values); !read) {
    return std::move(read).error();
  }
  if (const JsonValue* list = work->find("collectives"); !is_absent(list)) {
    if (Status read = read_collectives(*list, place, phase.values); !read) {
      return std::move(read).error();
    }
  }
  return phase;
}

Status read_phases(const JsonValue& row, const Place& place, MeasuredRow& out) {
  const JsonValue* phases = row.find("phases");
  if (is_absent(phases)) {
    const JsonValue* failure = row.find("error");
    const JsonValue* oom = row.find("oom");
    out.out_of_memory = !is_absent(oom) && oom->as_bool() != false;
    if (!is_absent(failure)) {
      out.failure = failure->as_string() != nullptr ? *failure->as_string() : ir::to_json(*failure);
    } else if (!out.out_of_memory) {
      return place.error({}, R"(neither "phases" nor "oom")", "what was measured");
    }
    return ok();
  }
  const JsonValue::Array* list = phases->as_array();
  if (list == nullptr) {
    return place.error("phases", ir::to_json(*phases), "a list");
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Place at{place.file, place.at + ": phases/" + std::to_string(i)};
    Result<MeasuredPhase> phase = read_phase((*list)[i], at);
    if (!phase) {
      return std::move(phase).error();
    }
    out.phases.push_back(std::move(phase).value());
  }
  return ok();
}

JsonValue without_member(JsonValue row, std::string_view key) {
  std::erase_if(*row.as_object(),
                [key](const ir::JsonMember& member) { return member.key == key; });
  return row;
}

Result<MeasuredRow> read_row(JsonValue value, const Place& place) {
  if (value.as_object() == nullptr) {
    return place.error({}, "a value that is no object", R"(a row {"id", ...})");
  }
  const JsonValue* id = value.find("id");
  const JsonValue* framework = value.find("framework");
  const JsonValue* setting = value.find("case");
  const JsonValue* measured = value.find("measured");
  if (id == nullptr || id->as_string() == nullptr) {
    return place.error("id", id == nullptr ? "nothing" : ir::to_json(*id), "a name");
  }
  MeasuredRow row;
  row.source = source_name(place.file);
  row.id = *id->as_string();
  if (framework != nullptr && framework->as_string() != nullptr) {
    row.framework = *framework->as_string();
  }
  if (measured != nullptr && (measured->is_null() || measured->as_object() != nullptr)) {
    row.form = RowForm::kPublished;
    row.on_gpu = true;
    row.measured_raw = *measured;
    row.setting = without_member(std::move(value), "measured");
    return row;
  }
  if (setting == nullptr || setting->as_object() == nullptr) {
    return place.error({}, R"(neither "case" nor "measured")", "a measured run");
  }
  if (Status read = read_phases(value, place, row); !read) {
    return std::move(read).error();
  }
  if (Status read = read_seconds(value, "step_seconds", place, row.step_seconds); !read) {
    return std::move(read).error();
  }
  const JsonValue* device = value.find("measured_on");
  row.on_gpu = device != nullptr && device->as_string() != nullptr && *device->as_string() == "gpu";
  if (const JsonValue* gpu = value.find("gpu"); gpu != nullptr && gpu->as_string() != nullptr) {
    row.gpu = *gpu->as_string();
  }
  row.setting = *setting;
  return row;
}

Result<std::vector<MeasuredRow>> parse_document(std::string_view text, const std::string& path) {
  Result<JsonValue> document = ir::parse_json(text, path);
  if (!document) {
    return std::move(document).error();
  }
  const JsonValue* list = document->find("rows");
  if (list == nullptr || list->as_array() == nullptr) {
    return Error::invalid_input(path, "/rows", "nothing", R"({"source": ..., "rows": [...]})");
  }
  std::vector<MeasuredRow> rows;
  for (std::size_t i = 0; i < list->as_array()->size(); ++i) {
    Result<MeasuredRow> row =
        read_row((*list->as_array())[i], Place{path, "/rows/" + std::to_string(i)});
    if (!row) {
      return std::move(row).error();
    }
    rows.push_back(std::move(row).value());
  }
  return rows;
}

Result<std::vector<MeasuredRow>> parse_lines(std::string_view text, const std::string& path) {
  std::vector<MeasuredRow> rows;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    const std::string at = "line " + std::to_string(number);
    Result<JsonValue> value = ir::parse_json(line, path);
    if (!value) {
      Error error = std::move(value).error();
      error.pointer = at + (error.pointer.empty() ? "" : ", " + error.pointer);
      return error;
    }
    Result<MeasuredRow> row = read_row(std::move(value).value(), Place{path, at});
    if (!row) {
      return std::move(row).error();
    }
    rows.push_back(std::move(row).value());
  }
  return rows;
}

bool is_document(std::string_view path) {
  return path.ends_with(".json") || path.ends_with(".json.gz");
}

Result<std::vector<std::string>> files_below(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  std::filesystem::recursive_directory_iterator entry(folder, error);
  for (const std::filesystem::recursive_directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().string();
    const bool known =
        std::any_of(kEndings.begin(), kEndings.end(),
                    [&name](std::string_view ending) { return name.ends_with(ending); });
    if (known && !entry->is_directory()) {
      files.push_back(name);
    }
  }
  if (error) {
    return Error::environment(folder, error.message(), "a readable folder");
  }
  std::sort(files.begin(), files.end());  // The file system's order is arbitrary.
  return files;
}

}  // namespace

std::string source_name(std::string_view path) {
  const std::size_t slash = path.find_last_of('/');
  std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending) && name.size() > ending.size()) {
      return std::string(name.substr(0, name.size() - ending.size()));
    }
  }
  const std::size_t dot = name.find('.', 1);  // A leading dot belongs to the name.
  return std::string(name.substr(0, dot));
}

Result<std::vector<MeasuredRow>> parse_rows(std::string_view text, const std::string& path) {
  Result<std::vector<MeasuredRow>> rows =
      is_document(path) ? parse_document(text, path) : parse_lines(text, path);
  if (rows && rows->empty()) {
    return Error::invalid_input(path, {}, "no rows", "at least one measured run");
  }
  return rows;
}

Result<std::vector<MeasuredRow>> read_rows(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files{path};
  if (std::filesystem::is_directory(path, error)) {
    Result<std::vector<std::string>> found = files_below(path);
    if (!found) {
      return std::move(found).error();
    }
    files = std::move(found).value();
    if (files.empty()) {
      return Error::invalid_input(path, {}, "a folder without .jsonl, .jsonl.gz or .json files",
                                  "measured rows");
    }
  }
  std::vector<MeasuredRow> rows;
  for (const std::string& file : files) {
    Result<std::string> text = read_file_bytes(file);
    if (!text) {
      return std::move(text).error();
    }
    Result<std::vector<MeasuredRow>> read = parse_rows(text.value(), file);
    if (!read) {
      return read;
    }
    for (MeasuredRow& row : read.value()) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace headroom::check
