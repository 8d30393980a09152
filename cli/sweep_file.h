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
  std::string options;  ///< Other options that the answer depends on: "--seq 512".
  friend auto operator<=>(const SweepItem&, const SweepItem&) = default;
};

/// The line of an answer without the line break. `answer` is an object with some of the fields of
/// `sweep_header`.
[[nodiscard]] std::string sweep_line(SweepFormat format, const ir::JsonValue& answer);
/// The names of the columns; empty for JSON lines.
[[nodiscard]] std::string sweep_header(SweepFormat format);
/// The item that `line` answers; nothing for a header, or for a line that was cut off.
[[nodiscard]] std::optional<SweepItem> item_of_line(SweepFormat format, std::string_view line);

/// Whether the file at `path` can be added to: there is none, it is empty, or it has lines of a
/// sweep in this format.
[[nodiscard]] bool may_extend(const std::string& path, SweepFormat format);

/// The file of a running sweep. The first rank appends to the file itself, and every other rank to
/// a file of its own beside it (".rank1", ...). Only whole lines are appended, so that a rank that
/// is killed loses only the item on which it was working.
class SweepFile {
 public:
  /// Reads the contents of the file and of the files of other ranks.
  SweepFile(std::string path, SweepFormat format);

  /// The lines of items that are already answered.
  [[nodiscard]] const std::map<SweepItem, std::string>& lines() const { return lines_; }

  /// Opens the file to which `rank` appends.
  ///
  /// Errors:  kEnvironment if it cannot be written.
  [[nodiscard]] Status open(int rank);
  /// Appends the line of an item.
  ///
  /// Errors:  kEnvironment if the disk is full.
  [[nodiscard]] Status add(const SweepItem& item, const std::string& line);

  /// Writes the complete file: the lines of other sweeps that it had, then `items` in their order,
  /// each with its line in `lines`. Removes the files of the other ranks that this rank can see.
  ///
  /// Errors:  kEnvironment if it cannot be written.
  [[nodiscard]] Status finish(const std::vector<SweepItem>& items,
                              const std::map<SweepItem, std::string>& lines);
  /// Removes the file to which this rank appended, unless it is the sweep's file itself.
  void remove_own();

 private:
  [[nodiscard]] std::vector<std::string> rank_files() const;
  void read(const std::string& path);

  std::string path_;
  SweepFormat format_;
  std::map<SweepItem, std::string> lines_;
  std::vector<SweepItem> order_;  ///< The items, in the order of the file's lines.
  std::string own_;
  std::ofstream out_;
};

}  // namespace headroom::cli
