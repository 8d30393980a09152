#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "validators/snapshot/memory_use.h"

/// Pieces of nvidia-smi's texts.
namespace headroom::check {

/// Calls `visit` with every line of a text, without its end.
template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    visit(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

[[nodiscard]] std::string_view trimmed(std::string_view text);
/// The parts between separators, without blanks around them.
[[nodiscard]] std::vector<std::string_view> fields_of(std::string_view line, char separator);
/// The words between blanks.
[[nodiscard]] std::vector<std::string_view> words_of(std::string_view line);

/// A whole number that is the whole text.
[[nodiscard]] std::optional<std::int64_t> whole_number(std::string_view text);
/// "12340 MiB", "12340MiB" or "12340".
[[nodiscard]] std::optional<Bytes> mebibytes(std::string_view text);

/// Seconds of "2024/05/01 12:00:00.123", "Wed May  1 12:00:00 2024" or "20240501 12:00:00"; of
/// "12:00:00" since midnight.
[[nodiscard]] std::optional<double> seconds_of(std::string_view text);

/// Reads times without a date, one after the other. A jump back by more than half a day is
/// midnight.
class DayClock {
 public:
  /// Seconds since the midnight before the first time.
  [[nodiscard]] std::optional<double> seconds_of(std::string_view time);

 private:
  static constexpr double kDay = 86'400;
  double last_ = 0;
  double midnights_ = 0;
};

/// Gathers readings by GPU and process.
class UseCollector {
 public:
  explicit UseCollector(GpuLog& log) : log_(log) {}

  /// The use of a GPU or process; nullptr if there are too many.
  [[nodiscard]] MemoryUse* use_of(std::string_view gpu, std::optional<std::int64_t> process = {});
  void add(MemoryUse* use, UseSample sample);
  [[nodiscard]] bool is_full() const { return full_; }
  [[nodiscard]] std::size_t samples() const { return samples_; }

 private:
  GpuLog& log_;
  std::size_t samples_ = 0;
  bool full_ = false;
};

/// The readers of the forms; each adds to the collector what the text has.
void read_smi_tables(std::string_view text, GpuLog& log, UseCollector& uses);
void read_smi_csv(std::string_view text, GpuLog& log, UseCollector& uses);
void read_smi_monitor(std::string_view text, GpuLog& log, UseCollector& uses);

}  // namespace headroom::check
