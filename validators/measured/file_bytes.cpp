#include "validators/measured/file_bytes.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include <zlib.h>

#include "model_ir/base/file.h"

namespace headroom::check {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;

Error too_long(const std::string& path, std::size_t limit) {
  return Error::invalid_input(path, {}, "more than " + std::to_string(limit) + " bytes",
                              "a smaller file", "split the file");
}

/// zlib's state, which is freed on every return.
class Inflater {
 public:
  Inflater() { ready_ = inflateInit2(&stream_, 15 + 16) == Z_OK; }  // 16: gzip.
  ~Inflater() {
    if (ready_) {
      inflateEnd(&stream_);
    }
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  [[nodiscard]] bool ready() const { return ready_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool ready_ = false;
};

/// `packed` is not changed; only zlib's interface lacks the const.
Result<std::string> inflate_gzip(std::span<char> packed, const std::string& path,
                                 std::size_t limit) {
  Inflater inflater;
  if (!inflater.ready()) {
    return Error::environment(path, "zlib cannot start", "memory for decompression");
  }
  z_stream& stream = inflater.stream();
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, kChunk> chunk{};
  for (;;) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    text.append(chunk.data(), chunk.size() - stream.avail_out);
    if (text.size() > limit) {
      return too_long(path, limit);
    }
    if (status == Z_STREAM_END && stream.avail_in == 0) {
      return text;
    }
    // A gzip file may consist of several members, one after the other (RFC 1952, section 2.2).
    const bool more = status == Z_STREAM_END ? inflateReset(&stream) == Z_OK : status == Z_OK;
    if (!more) {
      return Error::invalid_input(
          path, "byte " + std::to_string(packed.size() - stream.avail_in),
          status == Z_BUF_ERROR ? "the end of the file inside gzip data" : "damaged gzip data",
          "a whole gzip file");
    }
  }
}

}  // namespace

Result<std::string> read_file_bytes(const std::string& path, std::size_t limit) {
  Result<std::string> bytes = read_file(path, static_cast<std::int64_t>(limit));
  if (!bytes || !bytes->starts_with("\x1f\x8b")) {
    return bytes;
  }
  return inflate_gzip(bytes.value(), path, limit);
}

Result<std::string> gzip_bytes(std::string_view text, std::size_t limit) {
  if (text.size() > limit) {
    return Error::invalid_input({}, {}, std::to_string(text.size()) + " bytes",
                                "at most " + std::to_string(limit) + " bytes, which can be read");
  }
  constexpr int kGzipWindow = 15 + 16;  // 16: gzip.
  constexpr int kMemoryLevel = 8;       // zlib's default.
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return Error::environment({}, "zlib cannot start", "memory for compression");
  }
  std::string input(text);  // zlib's interface lacks the const.
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  std::string packed(deflateBound(&stream, static_cast<uLong>(input.size())), '\0');
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) {
    return Error::environment({}, "zlib failed", "memory for compression");
  }
  return packed;
}

}  // namespace headroom::check
