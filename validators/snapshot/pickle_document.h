#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::check {

enum class PickleKind : std::uint8_t { kNone, kBool, kInteger, kReal, kText, kList, kDict };

/// One value of a pickle in 8 bytes: its kind, and either a small number or an index into a table
/// of `PickleDocument`. Values that the pickle shares by its memo share the index.
class PickleValue {
 public:
  constexpr PickleValue() = default;
  constexpr PickleValue(PickleKind kind, std::uint64_t payload)
      : bits_(static_cast<std::uint64_t>(kind) << kShift | (payload & kMask)) {}

  [[nodiscard]] constexpr PickleKind kind() const {
    return static_cast<PickleKind>(bits_ >> kShift);
  }
  [[nodiscard]] constexpr std::uint64_t payload() const { return bits_ & kMask; }

 private:
  static constexpr int kShift = 60;
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << kShift) - 1;
  std::uint64_t bits_ = 0;
};

/// What a pickle may hold and may cost. A file beyond a limit is refused.
struct PickleLimits {
  /// Bytes of the tables per byte of the file, beyond the first 16 MiB. Snapshots need about 3.
  std::size_t bytes_per_byte = 12;
  std::size_t depth = 64;  ///< Lists and dictionaries that are open at once. Snapshots need 8.
};

/// The values of a pickle as flat tables: nothing is copied where the pickle refers to a value
/// again, equal texts are stored once, and no value is a node on the heap.
class PickleDocument {
 public:
  [[nodiscard]] PickleValue root() const { return root_; }

  /// A list's or tuple's items; a dictionary's keys and values in turn. Requires one of these.
  [[nodiscard]] std::span<const PickleValue> items(PickleValue value) const;
  /// Requires a text; valid as long as the document is.
  [[nodiscard]] std::string_view text(PickleValue value) const;
  /// Requires an integer. One beyond 2^59 is the nearest that fits: no size, address or time of a
  /// snapshot is that large.
  [[nodiscard]] static std::int64_t integer(PickleValue value);
  /// Requires a real number.
  [[nodiscard]] double real(PickleValue value) const { return reals_[value.payload()]; }

  /// How many lists, tuples and dictionaries there are: their indexes are below it.
  [[nodiscard]] std::size_t containers() const { return containers_.size(); }
  /// How many different texts there are: their indexes are below it.
  [[nodiscard]] std::size_t texts() const { return texts_.size(); }
  /// Bytes of all tables and of the file.
  [[nodiscard]] std::size_t bytes() const;

 private:
  friend class PickleReader;
  struct Container {
    std::uint32_t begin = 0;  ///< In `items_`.
    std::uint32_t count = 0;
    std::uint32_t room = 0;  ///< Items that fit without moving the container.
  };

  std::string file_;  ///< The texts are views into it.
  std::vector<std::string_view> texts_;
  std::vector<double> reals_;
  std::vector<Container> containers_;
  std::vector<PickleValue> items_;
  PickleValue root_;
};

/// Reads the part of Python's pickle format that plain data needs: None, truth values, numbers,
/// texts, lists, tuples and dictionaries, in protocols 2 to 5, with frames and memo.
///
/// Model:   a machine with a stack, without recursion. Nothing of the file is executed, imported or
///          called. Bytes behind the end of the pickle are ignored, as Python does.
/// Units:   memory stays below `limits.bytes_per_byte` times the size of the file, and 16 MiB.
/// Errors:  kInvalidInput with the byte for what is cut off, is no pickle of plain data (with the
///          opcode and, as far as the bytes tell, what the file is), or exceeds a limit.
/// Source:  CPython Lib/pickletools.py 3.11 (opcodes and their arguments).
[[nodiscard]] Result<PickleDocument> read_pickle(std::string bytes, std::string_view file,
                                                 const PickleLimits& limits = {});

/// What a file is by its first bytes: "a zip archive, such as torch.save writes"; empty: not known.
[[nodiscard]] std::string_view kind_of_file(std::string_view bytes);

}  // namespace headroom::check
