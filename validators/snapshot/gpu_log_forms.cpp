// The three forms of nvidia-smi's output.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "validators/snapshot/gpu_log_lines.h"

namespace headroom::check {
namespace {

/// The number of the column with one of the names; nothing if there is none.
std::optional<std::size_t> column_of(const std::vector<std::string_view>& names,
                                     std::initializer_list<std::string_view> wanted) {
  for (const std::string_view name : wanted) {
    for (std::size_t at = 0; at < names.size(); ++at) {
      // The unit stands behind the name: "memory.used [MiB]".
      if (names[at].substr(0, names[at].find(' ')) == name) {
        return at;
      }
    }
  }
  return std::nullopt;
}

std::string_view cell(const std::vector<std::string_view>& row, std::optional<std::size_t> column) {
  return column && *column < row.size() ? row[*column] : std::string_view();
}

/// "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:04:00.0 Off |                    0 |"
std::optional<std::string> gpu_of_line(std::string_view line) {
  if (!line.starts_with('|') || line.find(':') == std::string_view::npos) {
    return std::nullopt;
  }
  const std::vector<std::string_view> words = words_of(line.substr(1));
  const bool numbered = words.size() > 2 && whole_number(words.front()).has_value();
  return numbered ? std::optional(std::string(words.front())) : std::nullopt;
}

std::string name_of_line(std::string_view line) {
  std::string_view left = trimmed(line.substr(1, line.find('|', 1) - 1));
  left.remove_prefix(std::min(left.find(' '), left.size()));
  left = trimmed(left);
  const std::size_t gap = left.find("  ");  // The persistence mode follows.
  return std::string(left.substr(0, gap));
}

/// "| N/A   33C    P0             71W /  700W |       1MiB /  81559MiB |      0%      Default |"
struct UsedOfTotal {
  Bytes used;
  Bytes total;
};
std::optional<UsedOfTotal> memory_of_line(std::string_view line) {
  for (const std::string_view part : fields_of(line, '|')) {
    const std::vector<std::string_view> sides = fields_of(part, '/');
    if (sides.size() == 2 && sides[0].ends_with("MiB") && sides[1].ends_with("MiB")) {
      const auto used = mebibytes(sides[0]);
      const auto total = mebibytes(sides[1]);
      return used && total ? std::optional(UsedOfTotal{*used, *total}) : std::nullopt;
    }
  }
  return std::nullopt;
}

/// "|    0   N/A  N/A      1234      C   python train.py                    12340MiB |"
void read_process_line(std::string_view line, const UseSample& sample, UseCollector& uses) {
  const std::vector<std::string_view> words = words_of(line);
  constexpr std::string_view kTypes = "C G C+G M M+C";
  // Words: |, GPU, instances (not in old releases), process, type, name, memory, |.
  if (words.size() < 7 || words.front() != "|" || words.back() != "|") {
    return;
  }
  const auto used = mebibytes(words[words.size() - 2]);
  if (!used || !words[words.size() - 2].ends_with("MiB") || !whole_number(words[1])) {
    return;
  }
  for (std::size_t at = 2; at + 2 < words.size(); ++at) {
    const auto process = whole_number(words[at]);
    if (process && words[at + 1].size() <= 3 &&
        kTypes.find(words[at + 1]) != std::string_view::npos) {
      MemoryUse* const use = uses.use_of(words[1], process);
      if (use != nullptr && at + 2 < words.size() - 2) {
        use->name = std::string(words[at + 2]);
      }
      uses.add(use, {.reading = sample.reading, .seconds = sample.seconds, .used = *used});
      return;
    }
  }
}

}  // namespace

void read_smi_tables(std::string_view text, GpuLog& log, UseCollector& uses) {
  log.source = "nvidia-smi";
  std::size_t tables = 0;
  std::optional<double> seconds;
  std::optional<std::string> gpu;
  std::string name;
  bool processes = false;
  for_each_line(text, [&](std::string_view line) {
    if (const auto found = line.starts_with('|') ? std::nullopt : seconds_of(trimmed(line))) {
      seconds = found;
    }
    if (line.find("| NVIDIA-SMI ") != std::string_view::npos) {
      ++tables;
      processes = false;
      gpu.reset();
      return;
    }
    const UseSample sample{.reading = tables - 1, .seconds = seconds, .used = {}};
    processes = processes || line.find("| Processes:") != std::string_view::npos;
    if (tables == 0) {
      return;
    }
    if (processes) {
      read_process_line(line, sample, uses);
    } else if (const auto memory = memory_of_line(line); memory && gpu) {
      MemoryUse* const use = uses.use_of(*gpu);
      if (use != nullptr) {
        use->total = memory->total;
        use->name = name;
      }
      uses.add(use, {.reading = sample.reading, .seconds = sample.seconds, .used = memory->used});
      gpu.reset();
    } else if (const auto found = gpu_of_line(line)) {
      gpu = found;
      name = name_of_line(line);
    }
  });
}

void read_smi_csv(std::string_view text, GpuLog& log, UseCollector& uses) {
  log.source = "nvidia-smi --query-gpu";
  std::vector<std::string> header;
  std::vector<std::string_view> names;
  std::size_t rows = 0;
  for_each_line(text, [&](std::string_view line) {
    const std::vector<std::string_view> row = fields_of(line, ',');
    if (const auto used = column_of(row, {"memory.used", "used_gpu_memory", "used_memory"});
        used && row[*used].ends_with(']')) {
      header.assign(row.begin(), row.end());  // The first, or that of another call.
      names.assign(header.begin(), header.end());
      return;
    }
    if (names.empty() || trimmed(line).empty()) {
      return;
    }
    const auto used =
        mebibytes(cell(row, column_of(names, {"memory.used", "used_gpu_memory", "used_memory"})));
    const auto process = column_of(names, {"pid"});
    const auto number = whole_number(cell(row, process));
    if (row.size() != names.size() || !used || process.has_value() != number.has_value()) {
      ++log.skipped;
      return;
    }
    const std::string_view gpu = cell(
        row,
        column_of(names, {"index", "gpu_uuid", "uuid", "gpu_bus_id", "pci.bus_id", "gpu_name"}));
    MemoryUse* const use = uses.use_of(gpu, number);
    if (use != nullptr) {
      use->name = std::string(process ? cell(row, column_of(names, {"process_name", "name"}))
                                      : cell(row, column_of(names, {"name", "gpu_name"})));
      if (const auto total = mebibytes(cell(row, column_of(names, {"memory.total"})))) {
        use->total = total;
      }
    }
    uses.add(use, {.reading = rows++,
                   .seconds = seconds_of(cell(row, column_of(names, {"timestamp"}))),
                   .used = *used});
  });
}

void read_smi_monitor(std::string_view text, GpuLog& log, UseCollector& uses) {
  log.source = "nvidia-smi dmon";
  DayClock clock;
  std::vector<std::string> header;
  std::vector<std::string_view> names;
  std::size_t rows = 0;
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with('#')) {
      const std::vector<std::string_view> words = words_of(line.substr(1));
      if (std::ranges::find(words, "gpu") != words.end()) {  // The other line has the units.
        header.assign(words.begin(), words.end());
        names.assign(header.begin(), header.end());
      }
      return;
    }
    const std::vector<std::string_view> row = words_of(line);
    if (row.empty() || names.empty()) {
      return;
    }
    const auto process = column_of(names, {"pid"});
    const auto number = whole_number(cell(row, process));
    const auto used = mebibytes(cell(row, column_of(names, {"fb"})));
    // The command is the last column, and may contain blanks.
    const bool whole = process ? row.size() >= names.size() : row.size() == names.size();
    if (!whole || !used || process.has_value() != number.has_value()) {
      ++log.skipped;
      return;
    }
    const std::string date(cell(row, column_of(names, {"Date"})));
    const std::string time(cell(row, column_of(names, {"Time"})));
    MemoryUse* const use = uses.use_of(cell(row, column_of(names, {"gpu"})), number);
    if (use != nullptr && process) {
      log.source = "nvidia-smi pmon";
      use->name = std::string(cell(row, column_of(names, {"command"})));
    }
    uses.add(use, {.reading = rows++,
                   .seconds = date.empty() ? clock.seconds_of(time) : seconds_of(date + " " + time),
                   .used = *used});
  });
}

}  // namespace headroom::check
