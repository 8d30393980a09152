#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/measured/row.h"

namespace headroom::check {

/// Reads measured rows from a file, or from every file with a known ending below a folder, in the
/// order of their paths.
///
/// Model:   `.json` holds {"source", "rows"}; anything else holds one row a line. Either may be
///          compressed with gzip, which is told by content. A row with "case" is of `kCase`, one
///          with "measured" of `kPublished`, in both kinds of file.
/// Errors:  kEnvironment for a path that is missing or cannot be read; kInvalidInput, with file and
///          line (or JSON pointer), for what is not such a row, and for a file or folder without
///          any.
[[nodiscard]] Result<std::vector<MeasuredRow>> read_rows(const std::string& path);

/// The file's name without folder and endings: "runs/ladder.jsonl.gz" is "ladder".
[[nodiscard]] std::string source_name(std::string_view path);

/// Rows from the text of one file, already decompressed; `path` as in `read_rows`.
[[nodiscard]] Result<std::vector<MeasuredRow>> parse_rows(std::string_view text,
                                                          const std::string& path);

}  // namespace headroom::check
