#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headroom::test {

/// Writes a pickle operation by operation, broken ones included.
class Pickle {
 public:
  explicit Pickle(int protocol = 4) { bytes_ = {'\x80', static_cast<char>(protocol)}; }
  /// Operations for the inside of another pickle.
  static Pickle part() {
    Pickle pickle;
    pickle.bytes_.clear();
    return pickle;
  }

  Pickle& raw(std::string_view operations) {
    bytes_ += operations;
    return *this;
  }
  Pickle& text(std::string_view value) {
    bytes_ += 'X';
    return little_endian(value.size(), 4).raw(value);
  }
  Pickle& integer(std::int64_t value) {
    bytes_ += "\x8a\x08";
    return little_endian(static_cast<std::uint64_t>(value), 8);
  }

  [[nodiscard]] std::string bytes() const { return bytes_; }
  [[nodiscard]] std::string finish() const { return bytes_ + "."; }

 private:
  Pickle& little_endian(std::uint64_t value, int width) {
    for (int byte = 0; byte < width; ++byte) {
      bytes_ += static_cast<char>(value >> (8 * byte) & 0xFFU);
    }
    return *this;
  }

  std::string bytes_;
};

}  // namespace headroom::test
