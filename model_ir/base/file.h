#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/base/result.h"

namespace headroom {

/// Size above which a text file is refused unless the caller says otherwise: the largest
/// config.json known is far below 1 MiB.
inline constexpr std::int64_t kTextFileLimit = 16 * (std::int64_t{1} << 20);

/// Reads a whole file, or a pipe up to its end.
///
/// Units:   `limit` in bytes; no more than that is kept in memory.
/// Errors:  kEnvironment if the path does not exist, is a directory or cannot be read;
///          kInvalidInput if there is more than `limit`.
[[nodiscard]] Result<std::string> read_file(const std::string& path,
                                            std::int64_t limit = kTextFileLimit);

/// Writes `content` to a temporary file in the folder of `path` and renames it, so that a reader
/// finds the old file or the new one and a failure leaves nothing behind. A path that exists and is
/// no regular file (a pipe, /dev/stdout) is written in place.
///
/// Errors:  kEnvironment if the folder is missing or cannot be written, or the disk is full.
[[nodiscard]] Status write_file_atomically(const std::string& path, std::string_view content);

/// Whether `write_file_atomically` can be expected to succeed, asked before long work.
///
/// Errors:  kEnvironment if the folder is missing or cannot be written, or if `path` is a folder.
[[nodiscard]] Status check_writable(const std::string& path);

}  // namespace headroom
