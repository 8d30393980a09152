#include "validators/snapshot/allocator_stats.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "model_ir/json/json_value.h"

namespace headroom::check {
namespace {

constexpr std::string_view kTitle = "PyTorch CUDA memory summary, device ID";
constexpr std::int64_t kGreatestStat = std::int64_t{1} << 60;
constexpr std::size_t kMostSummaries = 1'024;

/// A statistic: its row in the table, and its key in memory_stats.
struct StatRow {
  std::string_view title;
  std::string_view key;
  StatBytes AllocatorStats::*member;
};

constexpr std::array<StatRow, 5> kStatRows = {{
    {"Allocated memory", "allocated_bytes", &AllocatorStats::allocated},
    {"Active memory", "active_bytes", &AllocatorStats::active},
    {"Requested memory", "requested_bytes", &AllocatorStats::requested},
    {"GPU reserved memory", "reserved_bytes", &AllocatorStats::reserved},
    {"Non-releasable memory", "inactive_split_bytes", &AllocatorStats::inactive_split},
}};

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

/// The whole number behind `label`; nothing if it is not there.
std::optional<std::int64_t> number_behind(std::string_view text, std::string_view label) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = without_blanks(text.substr(at + label.size()));
  std::int64_t value = 0;
  std::size_t digits = 0;
  constexpr std::size_t kMostDigits = 18;
  for (; digits < rest.size() && digits < kMostDigits; ++digits) {
    if (rest[digits] < '0' || rest[digits] > '9') {
      break;
    }
    value = value * 10 + (rest[digits] - '0');
  }
  return digits > 0 ? std::optional(value) : std::nullopt;
}

/// The four sizes of a row: "| Allocated memory | 797 MiB | 1956 MiB | 13530 MiB | 12732 MiB |".
std::optional<StatBytes> read_row(std::string_view line) {
  std::array<Bytes, 4> cells{};
  std::size_t begin = line.find('|', line.find('|') + 1);  // Behind the title.
  for (Bytes& cell : cells) {
    const std::size_t end = begin == std::string_view::npos ? begin : line.find('|', begin + 1);
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    const std::optional<Bytes> size =
        parse_bytes(without_blanks(line.substr(begin + 1, end - begin - 1)));
    if (!size) {
      return std::nullopt;
    }
    cell = *size;
    begin = end;
  }
  return StatBytes{.current = cells[0], .peak = cells[1], .allocated = cells[2], .freed = cells[3]};
}

/// One table: what follows its title, up to the next one.
Result<AllocatorStats> read_table(std::string_view table, const std::string& file) {
  AllocatorStats stats;
  stats.device = number_behind(table, kTitle).value_or(-1);
  stats.out_of_memory = number_behind(table, "CUDA OOMs:").value_or(0);
  stats.retries = number_behind(table, "cudaMalloc retries:").value_or(0);
  for (const StatRow& row : kStatRows) {
    const std::size_t at = table.find("| " + std::string(row.title) + " ");
    const std::string_view line = at == std::string_view::npos
                                      ? std::string_view()
                                      : table.substr(at, table.find('\n', at) - at);
    const std::optional<StatBytes> sizes = read_row(line);
    if (sizes) {
      stats.*row.member = *sizes;
    } else if (row.key != "requested_bytes") {
      return Error::invalid_input(file, "/" + std::string(row.title),
                                  line.empty() ? "no such row" : "a row that is cut or wrapped",
                                  "a whole table of torch.cuda.memory_summary()",
                                  "copy the table anew, from a log that does not break its lines");
    }
  }
  return stats;
}

Result<std::vector<AllocatorStats>> read_tables(std::string_view text, std::string_view file) {
  std::vector<AllocatorStats> all;
  std::size_t at = text.find(kTitle);
  while (at != std::string_view::npos && all.size() < kMostSummaries) {
    const std::size_t next = text.find(kTitle, at + kTitle.size());
    Result<AllocatorStats> stats = read_table(text.substr(at, next - at), std::string(file));
    if (!stats) {
      return std::move(stats).error();
    }
    all.push_back(*stats);
    at = next;
  }
  return all;
}

Result<AllocatorStats> read_object(const ir::JsonValue& object, std::string_view file) {
  AllocatorStats stats;
  std::optional<Error> fault;
  // Keys are flat ("allocated_bytes.all.peak"), or nested as memory_stats_as_nested_dict has them.
  const auto number = [&](const std::string& key) {
    const ir::JsonValue* found = object.find(key);
    const ir::JsonValue* inner = &object;
    for (std::size_t begin = 0; found == nullptr && inner != nullptr && begin <= key.size();) {
      const std::size_t end = std::min(key.find('.', begin), key.size());
      inner = inner->find(key.substr(begin, end - begin));
      begin = end + 1;
    }
    found = found != nullptr ? found : inner;
    const std::optional<std::int64_t> value =
        found == nullptr || found == &object ? std::optional(std::int64_t{0}) : found->as_integer();
    if (!value || *value < 0 || *value > kGreatestStat) {
      fault = Error::invalid_input(file, "/" + key, "no count of bytes", "a number of at least 0");
      return std::int64_t{0};
    }
    return *value;
  };
  for (const StatRow& row : kStatRows) {
    const std::string key = std::string(row.key) + ".all.";
    stats.*row.member = {.current = Bytes{number(key + "current")},
                         .peak = Bytes{number(key + "peak")},
                         .allocated = Bytes{number(key + "allocated")},
                         .freed = Bytes{number(key + "freed")}};
  }
  stats.retries = number("num_alloc_retries");
  stats.out_of_memory = number("num_ooms");
  if (fault) {
    return *std::move(fault);
  }
  if (stats.reserved.peak == Bytes{0} && stats.allocated.peak == Bytes{0}) {
    return Error::invalid_input(file, "/", "JSON without \"allocated_bytes.all.peak\"",
                                "what torch.cuda.memory_stats() returns",
                                "write json.dumps(torch.cuda.memory_stats())");
  }
  return stats;
}

}  // namespace

bool is_allocator_stats(std::string_view text) {
  const std::string_view rest = without_blanks(text.substr(0, 256));
  return rest.starts_with('{') || rest.starts_with('[') ||
         (!text.starts_with('\x80') && text.find(kTitle) != std::string_view::npos);
}

Result<std::vector<AllocatorStats>> read_allocator_stats(std::string_view text,
                                                         std::string_view file) {
  if (text.find(kTitle) != std::string_view::npos) {
    return read_tables(text, file);
  }
  const Result<ir::JsonValue> json = ir::parse_json(text, file);
  if (!json) {
    return json.error();
  }
  std::vector<AllocatorStats> all;
  const ir::JsonValue::Array one = {*json};
  const ir::JsonValue::Array& objects = json->as_array() != nullptr ? *json->as_array() : one;
  for (const ir::JsonValue& object : objects) {
    Result<AllocatorStats> stats = read_object(object, file);
    if (!stats) {
      return std::move(stats).error();
    }
    all.push_back(*stats);
  }
  if (all.empty()) {
    return Error::invalid_input(file, "/", "an empty array",
                                "what torch.cuda.memory_stats() returns");
  }
  return all;
}

}  // namespace headroom::check
