#include "model_ir/spec/weights/header_file.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 16;
constexpr const char* kDownloadMore = "download more of the file: its header is longer";

Error unreadable(const std::string& path, int fault) {
  return Error::environment(path, std::generic_category().message(fault),
                            "a weight file that can be read", "check the path and its permissions");
}

}  // namespace

HeaderFile::HeaderFile(std::string path, std::ifstream stream, std::int64_t size)
    : path_(std::move(path)), stream_(std::move(stream)), size_(size) {}

Result<HeaderFile> HeaderFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return Error::environment("", "a path with a NUL byte", "a path");
  }
  std::error_code fault;
  const std::filesystem::file_status status = std::filesystem::status(path, fault);
  if (std::filesystem::is_directory(status)) {
    return Error::environment(path, "a folder", "a weight file",
                              "name the .safetensors, .index.json or .gguf file inside it");
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return Error::environment(path, "no regular file", "a weight file");
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return unreadable(path, errno != 0 ? errno : ENOENT);
  }
  const std::uintmax_t size = std::filesystem::file_size(path, fault);
  if (fault || size > static_cast<std::uintmax_t>(INT64_MAX)) {
    return unreadable(path, fault ? fault.value() : EFBIG);
  }
  return HeaderFile(path, std::move(stream), static_cast<std::int64_t>(size));
}

Result<std::string> HeaderFile::read(std::int64_t offset, std::int64_t count) {
  HEADROOM_ASSERT(offset >= 0 && count >= 0 && count <= size_ - offset);
  std::string bytes(static_cast<std::size_t>(count), '\0');
  errno = 0;
  stream_.clear();
  stream_.seekg(offset);
  stream_.read(bytes.data(), count);
  if (stream_.bad() || (stream_.fail() && !stream_.eof())) {
    return unreadable(path_, errno != 0 ? errno : EIO);
  }
  bytes.resize(static_cast<std::size_t>(stream_.gcount()));
  return bytes;
}

std::string byte_pointer(std::int64_t offset) {
  return "byte " + std::to_string(offset);
}

std::string json_pointer(std::initializer_list<std::string_view> keys) {
  std::string text;
  for (const std::string_view key : keys) {
    text += '/';
    for (const char c : key) {
      text += c == '~' ? "~0" : (c == '/' ? "~1" : std::string(1, c));
    }
  }
  return text;
}

void HeaderCursor::fail(std::int64_t offset, const std::string& got, const std::string& wanted,
                        const std::string& fix) {
  if (!error_) {
    error_ = Error::invalid_input(file_->path(), byte_pointer(offset), got, wanted, fix);
  }
}

bool HeaderCursor::fill(std::int64_t count, const char* what) {
  if (failed()) {
    return false;
  }
  if (static_cast<std::int64_t>(buffer_.size() - at_) >= count) {
    return true;
  }
  if (count > remaining()) {
    fail(offset(), "the end of the file inside its header", what, kDownloadMore);
    return false;
  }
  const std::int64_t from = offset();
  Result<std::string> bytes = file_->read(from, std::min(std::max(count, kChunk), remaining()));
  if (!bytes) {
    error_ = std::move(bytes).error();
    return false;
  }
  begin_ = from;
  at_ = 0;
  buffer_ = std::move(bytes).value();
  if (static_cast<std::int64_t>(buffer_.size()) < count) {
    fail(from, "a file that shrinks while it is read", "a file at rest");
    return false;
  }
  return true;
}

std::uint64_t HeaderCursor::number(int width, const char* what) {
  if (!fill(width, what)) {
    return 0;
  }
  std::uint64_t value = 0;
  for (int i = width - 1; i >= 0; --i) {
    value = value << 8U | static_cast<unsigned char>(buffer_[at_ + static_cast<std::size_t>(i)]);
  }
  at_ += static_cast<std::size_t>(width);
  return value;
}

std::string HeaderCursor::text(std::uint64_t limit, const char* what) {
  const std::int64_t begin = offset();
  const std::uint64_t length = number(8, what);
  if (failed()) {
    return {};
  }
  if (length > limit || static_cast<std::int64_t>(length) > remaining()) {
    fail(begin, std::string(what) + " of " + std::to_string(length) + " bytes",
         "at most " + std::to_string(std::min(limit, static_cast<std::uint64_t>(remaining()))));
    return {};
  }
  return bytes(length, what);
}

std::string HeaderCursor::bytes(std::uint64_t count, const char* what) {
  if (!fill(static_cast<std::int64_t>(count), what)) {
    return {};
  }
  std::string value = buffer_.substr(at_, count);
  at_ += count;
  return value;
}

std::uint64_t HeaderCursor::count(std::int64_t item_bytes, const char* what) {
  const std::int64_t begin = offset();
  const std::uint64_t items = number(8, what);
  if (failed()) {
    return 0;
  }
  const auto room = static_cast<std::uint64_t>(remaining() / item_bytes);
  if (items > room) {
    fail(begin, std::to_string(items) + " " + what,
         "at most " + std::to_string(room) + ", which the rest of the file could hold",
         kDownloadMore);
    return 0;
  }
  return items;
}

void HeaderCursor::skip(std::uint64_t bytes, const char* what) {
  if (failed()) {
    return;
  }
  if (bytes > static_cast<std::uint64_t>(remaining())) {
    fail(offset(), std::string(what) + " of " + std::to_string(bytes) + " bytes",
         "at most " + std::to_string(remaining()) + ", what is left of the file", kDownloadMore);
    return;
  }
  if (bytes <= buffer_.size() - at_) {
    at_ += bytes;
    return;
  }
  begin_ = offset() + static_cast<std::int64_t>(bytes);
  at_ = 0;
  buffer_.clear();
}

}  // namespace headroom::ir
