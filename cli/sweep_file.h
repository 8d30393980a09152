#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"

namespace headroom::cli {

enum class SweepFormat : std::uint8_t { kJsonLines, kCsv };

/// One combination of a sweep.
struct SweepItem {
  std::string model;
  std::string gpu;
  std::string gpus;
  std::string options;  ///< All others that the answer depends on: "--seq 512".
  friend auto operator<=>(const SweepItem&, const SweepItem&) = default;
};

/// The line of an answer, an object with some of the fields of `sweep_header`; without its end.
[[nodiscard]] std::string sweep_line(SweepFormat format, const ir::JsonValue& answer);
/// Names of the columns; empty for JSON lines.
[[nodiscard]] std::string sweep_header(SweepFormat format);
/// What `line` answers; nothing for a header or a line that was cut off.
[[nodiscard]] std::optional<SweepItem> item_of_line(SweepFormat format, std::string_view line);

/// The file of a sweep while it runs. The first rank adds to the file itself, every other one to a
/// file of its own beside it (".rank1", ...), a whole line at a time, so that whatever is killed
/// loses only what it was working on.
class SweepFile {
 public:
  /// Reads what the file and those beside it hold.
  SweepFile(std::string path, SweepFormat format);

  /// Lines of items that need not be done again.
  [[nodiscard]] const std::map<SweepItem, std::string>& lines() const { return lines_; }

  /// Opens the file that `rank` adds to.
  ///
  /// Errors:  kEnvironment if it cannot be written.
  [[nodiscard]] Status open(int rank);
  /// Errors:  kEnvironment if the disk is full.
  [[nodiscard]] Status add(const SweepItem& item, const std::string& line);

  /// Writes the file whole: what it had of other sweeps, then `items` in their order, each with its
  /// line of `lines`; removes the files of the other ranks that are seen from here.
  ///
  /// Errors:  kEnvironment if it cannot be written.
  [[nodiscard]] Status finish(const std::vector<SweepItem>& items,
                              const std::map<SweepItem, std::string>& lines);
  /// Removes the file that this rank has added to, unless it is the file itself.
  void remove_own();

 private:
  [[nodiscard]] std::vector<std::string> rank_files() const;
  void read(const std::string& path);

  std::string path_;
  SweepFormat format_;
  std::map<SweepItem, std::string> lines_;
  std::vector<SweepItem> order_;  ///< Of the file's lines.
  std::string own_;
  std::ofstream out_;
};

}  // namespace headroom::cli
