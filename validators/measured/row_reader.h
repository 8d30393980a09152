#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/measured/row.h"

namespace headroom::check {

/// Reads measured rows from a file, or from all files below a folder that have a known extension,
/// in the order of their paths.
///
/// Model:   `.json` contains {"source", "rows"}; any other file contains one row per line. Both may
///          be compressed with gzip, which is detected from the content. In both kinds of file, a
///          row with "case" is of `kCase` and one with "measured" of `kPublished`.
/// Errors:  kEnvironment if a path is missing or cannot be read; kInvalidInput, with file and line
///          (or JSON pointer), for a row of neither form, and for a file or folder without rows.
[[nodiscard]] Result<std::vector<MeasuredRow>> read_rows(const std::string& path);

/// The file's name without folder and extensions: "runs/ladder.jsonl.gz" gives "ladder".
[[nodiscard]] std::string source_name(std::string_view path);

/// Reads the rows in the text of one file, which is already decompressed. `path` as in `read_rows`.
[[nodiscard]] Result<std::vector<MeasuredRow>> parse_rows(std::string_view text,
                                                          const std::string& path);

}  // namespace headroom::check
