#pragma once

#include <string>

#include "model_ir/base/result.h"

namespace headroom::check {

/// The bytes of a file, decompressed if they begin like gzip data.
///
/// Errors:  kEnvironment for a folder, a missing file or an unreadable file; kInvalidInput for
///          damaged or truncated gzip data and for text of more than `kTextLimit` bytes.
/// Source:  RFC 1952 section 2.3.1 (the two identification bytes).
[[nodiscard]] Result<std::string> read_file_bytes(const std::string& path);

/// More than a gigabyte of rows must be a mistake or a compression bomb.
inline constexpr std::size_t kTextLimit = std::size_t{1} << 30;

}  // namespace headroom::check
