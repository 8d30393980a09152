#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model_ir/base/result.h"

namespace headroom::check {

/// More than a gigabyte of rows must be a mistake or a compression bomb.
inline constexpr std::size_t kTextLimit = std::size_t{1} << 30;

/// The bytes of a file, decompressed if they begin like gzip data.
///
/// Errors:  kEnvironment for a folder, a missing file or an unreadable file; kInvalidInput for
///          damaged or truncated gzip data and for text of more than `limit` bytes.
/// Source:  RFC 1952 section 2.3.1 (the two identification bytes).
[[nodiscard]] Result<std::string> read_file_bytes(const std::string& path,
                                                  std::size_t limit = kTextLimit);

/// `text` as gzip data without a name and a time, so that the same text gives the same bytes.
///
/// Errors:  kEnvironment if there is too little memory; kInvalidInput, without a file, for text of
///          more than `limit` bytes, which `read_file_bytes` would refuse.
[[nodiscard]] Result<std::string> gzip_bytes(std::string_view text, std::size_t limit = kTextLimit);

}  // namespace headroom::check
