#include "validators/snapshot/gpu_log.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <string>
#include <utility>

#include "validators/snapshot/gpu_log_lines.h"

namespace headroom::check {
namespace {

constexpr std::int64_t kMostMebibytes = std::int64_t{1} << 30;
constexpr std::size_t kLooked = std::size_t{1} << 16;  ///< Bytes in which a log is recognised.

enum class SmiForm : std::uint8_t { kTable, kCsv, kMonitor };

bool is_csv_header(std::string_view line) {
  return line.find("memory.used [") != std::string_view::npos ||
         line.find("used_gpu_memory [") != std::string_view::npos ||
         line.find("used_memory [") != std::string_view::npos;
}

bool is_monitor_header(std::string_view line) {
  if (!line.starts_with('#')) {
    return false;
  }
  const std::vector<std::string_view> names = words_of(line.substr(1));
  return std::ranges::find(names, "gpu") != names.end();
}

std::optional<SmiForm> form_of(std::string_view text) {
  std::optional<SmiForm> form;
  for_each_line(text.substr(0, kLooked), [&form](std::string_view line) {
    if (form) {
      return;
    }
    if (line.find("| NVIDIA-SMI ") != std::string_view::npos) {
      form = SmiForm::kTable;
    } else if (is_csv_header(line)) {
      form = SmiForm::kCsv;
    } else if (is_monitor_header(line)) {
      form = SmiForm::kMonitor;
    }
  });
  return form;
}

/// Seconds since 1970 of a moment in the monitor's time zone, whatever that is; of a time without a
/// date, since midnight.
std::optional<double> seconds_in(const char* text, const char* format) {
  std::tm moment{};
  moment.tm_year = 70;  // 1970-01-01 where the text has no date.
  moment.tm_mday = 1;
  const char* const end = strptime(text, format, &moment);
  if (end == nullptr) {
    return std::nullopt;
  }
  double fraction = 0;
  if (*end == '.') {
    const char* const last = end + std::string_view(end).size();
    if (std::from_chars(end, last, fraction).ec != std::errc{}) {
      return std::nullopt;
    }
  }
  return static_cast<double>(timegm(&moment)) + fraction;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  const std::size_t end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

std::vector<std::string_view> fields_of(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t end = line.find(separator);
    fields.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) {
      return fields;
    }
    line.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(" \t"); at != std::string_view::npos;
       at = line.find_first_not_of(" \t", at)) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, fault] = std::from_chars(text.data(), end, value);
  return fault == std::errc{} && stopped == end && !text.empty() ? std::optional(value)
                                                                 : std::nullopt;
}

std::optional<Bytes> mebibytes(std::string_view text) {
  constexpr std::string_view kUnit = "MiB";
  if (text.ends_with(kUnit)) {
    text.remove_suffix(kUnit.size());
  }
  const std::optional<std::int64_t> value = whole_number(trimmed(text));
  return value && *value >= 0 && *value <= kMostMebibytes ? std::optional(Bytes{*value * kMiB})
                                                          : std::nullopt;
}

std::optional<double> seconds_of(std::string_view text) {
  const std::string copy(text.substr(0, 64));
  for (const char* const format :
       {"%Y/%m/%d %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%Y%m%d %H:%M:%S", "%H:%M:%S"}) {
    if (const auto seconds = seconds_in(copy.c_str(), format)) {
      return seconds;
    }
  }
  return std::nullopt;
}

std::optional<double> DayClock::seconds_of(std::string_view time) {
  const std::optional<double> seconds = check::seconds_of(time);
  if (!seconds) {
    return std::nullopt;
  }
  if (*seconds < last_ - kDay / 2) {
    midnights_ += kDay;
  }
  last_ = *seconds;
  return midnights_ + *seconds;
}

MemoryUse* UseCollector::use_of(std::string_view gpu, std::optional<std::int64_t> process) {
  std::vector<MemoryUse>& uses = process ? log_.processes : log_.gpus;
  const auto found = std::ranges::find_if(
      uses, [&](const MemoryUse& use) { return use.gpu == gpu && use.process == process; });
  if (found != uses.end()) {
    return &*found;
  }
  if (uses.size() == kMostUses) {
    full_ = true;
    return nullptr;
  }
  uses.push_back({.gpu = std::string(gpu), .name = {}, .process = process, .samples = {}});
  return &uses.back();
}

void UseCollector::add(MemoryUse* use, UseSample sample) {
  full_ = full_ || samples_ == kMostUseSamples;
  if (use != nullptr && !full_) {
    use->samples.push_back(sample);
    ++samples_;
  }
}

bool is_gpu_log(std::string_view text) {
  return form_of(text).has_value();
}

Result<GpuLog> read_gpu_log(std::string_view text, std::string_view file) {
  GpuLog log;
  UseCollector uses(log);
  switch (form_of(text).value_or(SmiForm::kTable)) {
    case SmiForm::kTable:
      read_smi_tables(text, log, uses);
      break;
    case SmiForm::kCsv:
      read_smi_csv(text, log, uses);
      break;
    case SmiForm::kMonitor:
      read_smi_monitor(text, log, uses);
      break;
  }
  if (uses.is_full()) {
    return Error::invalid_input(file, {}, "more readings, GPUs or processes",
                                "at most " + std::to_string(kMostUseSamples) + " readings of " +
                                    std::to_string(kMostUses) + " GPUs or processes",
                                "cut the log into parts");
  }
  if (uses.samples() == 0) {
    return Error::invalid_input(
        file, {}, "no reading of used memory", "a log of nvidia-smi",
        "record one with nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total "
        "--format=csv -l 1, or with nvidia-smi dmon -s m");
  }
  std::erase_if(log.gpus, [](const MemoryUse& use) { return use.samples.empty(); });
  std::erase_if(log.processes, [](const MemoryUse& use) { return use.samples.empty(); });
  return log;
}

}  // namespace headroom::check
