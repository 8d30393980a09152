#pragma once

#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "model_ir/base/result.h"

namespace headroom::ir {

/// A weight file that is read only where requested: the weights are never read.
class HeaderFile {
 public:
  /// Errors:  kEnvironment for a folder, a missing or an unreadable file, and for a file without a
  ///          size (a pipe).
  [[nodiscard]] static Result<HeaderFile> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::int64_t size() const { return size_; }

  /// Bytes [offset, offset + count); fewer only if the file has shrunk in the meantime. Requires
  /// the range to lie within `size()`.
  ///
  /// Errors:  kEnvironment if the system cannot read them.
  [[nodiscard]] Result<std::string> read(std::int64_t offset, std::int64_t count);

 private:
  HeaderFile(std::string path, std::ifstream stream, std::int64_t size);

  std::string path_;
  std::ifstream stream_;
  std::int64_t size_ = 0;
};

/// Reads little-endian fields in sequence. The cursor keeps the first fault, and every later read
/// yields zero, so that a parser checks once per item, not once per field.
class HeaderCursor {
 public:
  explicit HeaderCursor(HeaderFile& file) : file_(&file) {}

  /// Offset of the next byte in the file.
  [[nodiscard]] std::int64_t offset() const { return begin_ + static_cast<std::int64_t>(at_); }
  [[nodiscard]] std::int64_t remaining() const { return file_->size() - offset(); }
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  /// Requires `failed()`.
  [[nodiscard]] Error error() const { return error_.value(); }

  /// An unsigned number of `width` bytes: 1, 2, 4 or 8.
  std::uint64_t number(int width, const char* what);
  /// The next `count` bytes. Requires `count` to be bounded by the caller.
  std::string bytes(std::uint64_t count, const char* what);
  /// A 64-bit length, then that many bytes; more than `limit` is a fault.
  std::string text(std::uint64_t limit, const char* what);
  /// A 64-bit count of items that take at least `item_bytes` each; a count that the rest of the
  /// file cannot hold is a fault, so that no memory is reserved for it.
  std::uint64_t count(std::int64_t item_bytes, const char* what);
  void skip(std::uint64_t bytes, const char* what);

  /// Notes a fault at `offset`; the first one stays.
  void fail(std::int64_t offset, const std::string& got, const std::string& wanted,
            const std::string& fix = {});

 private:
  /// Makes `count` bytes available at `at_`.
  bool fill(std::int64_t count, const char* what);

  HeaderFile* file_;
  std::string buffer_;  ///< Bytes of the file from `begin_` on.
  std::int64_t begin_ = 0;
  std::size_t at_ = 0;  ///< Next byte in `buffer_`.
  std::optional<Error> error_;
};

/// "byte N", the pointer of errors in binary files.
[[nodiscard]] std::string byte_pointer(std::int64_t offset);

/// "/name/key" with the escapes of RFC 6901.
[[nodiscard]] std::string json_pointer(std::initializer_list<std::string_view> keys);

}  // namespace headroom::ir
