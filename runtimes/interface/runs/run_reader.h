#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// A word of a row and what it stands for.
template <typename T>
struct RowWord {
  std::string_view word;
  T value;
};

/// The value that `words` stand for; none if they are unknown.
template <typename T>
std::optional<T> find_word(std::string_view words, std::span<const RowWord<T>> known) {
  for (const RowWord<T>& each : known) {
    if (each.word == words) {
      return each.value;
    }
  }
  return std::nullopt;
}

/// Whether `words` are `beginning`, alone or followed by a space and a remark or a version:
/// "torchtitan (FSDP2)".
[[nodiscard]] bool begins_with(std::string_view words, std::string_view beginning);

/// Reads the keys of a measured row one by one and remembers the first error: a value of the wrong
/// kind, an unknown word or, at the end, a key that nobody read. An unread key could change what
/// happens, so a row with an error is skipped, never half understood.
class RunReader {
 public:
  /// `path` names the object in messages: "case", "case.lora". `object` must outlive the reader;
  /// anything but an object counts as empty.
  RunReader(const JsonValue* object, std::string path);

  /// The value of `key`; nullptr if it is absent or null. Marks the key as read.
  const JsonValue* take(std::string_view key);
  /// As `take`, without marking the key as read.
  [[nodiscard]] const JsonValue* peek(std::string_view key) const;
  /// Whether `key` is there and holds null.
  [[nodiscard]] bool is_null(std::string_view key) const;
  /// Marks keys that change nothing as read.
  void ignore(std::span<const std::string_view> keys);
  /// Marks every key as read.
  void ignore_rest();

  struct Range {
    std::int64_t low = 0;
    std::int64_t high = 0;
  };
  std::int64_t integer(std::string_view key, std::int64_t absent, Range range);
  /// A required whole number; 0 if it is missing.
  std::int64_t stated(std::string_view key, Range range);
  bool flag(std::string_view key, bool absent);
  double number(std::string_view key, double absent);
  std::string text(std::string_view key, std::string_view absent);
  template <typename T>
  T word(std::string_view key, std::string_view absent, std::span<const RowWord<T>> words) {
    const std::string got = text(key, absent);
    const std::optional<T> known = find_word<T>(got, words);
    if (!known) {
      fail(key, "'" + got + "'");
    }
    return known.value_or(words.front().value);
  }
  /// Looks up the words of a required key.
  template <typename T>
  T lookup(std::string_view key, std::optional<T> (*find)(std::string_view)) {
    const std::string words = text(key, "");
    const std::optional<T> meaning = find(words);
    if (!meaning) {
      fail_words(key, words);
    }
    return meaning.value_or(T{});
  }

  /// An optional text that must be `modelled`.
  void expect(std::string_view key, std::string_view modelled);
  /// A required text that must be one of `known`.
  void expect_one_of(std::string_view key, std::initializer_list<std::string_view> known);
  /// Keys that must be absent, "none" or false.
  void expect_none(std::initializer_list<std::string_view> keys);
  /// Parallel degrees that must be 1 or absent.
  void expect_one(std::initializer_list<std::string_view> degrees);

  /// Notes that the value of `key` is not understood; the first note stays.
  void fail(std::string_view key, std::string_view what);
  /// Notes an error of another reader unchanged, on one line.
  void refuse(const Error& error);
  /// Takes over the error of a reader of a nested object.
  void absorb(const std::optional<std::string>& nested);
  /// Whether an error was noted so far; keys left unread do not count yet.
  [[nodiscard]] bool failed() const { return first_.has_value(); }
  /// "case.attention: 'flex'": the first error or the first key left unread.
  [[nodiscard]] std::optional<std::string> trouble() const;

 private:
  void fail_words(std::string_view key, std::string_view words);

  const JsonValue* object_;
  std::string path_;
  std::vector<std::string_view> taken_;
  std::optional<std::string> first_;
};

/// The first line of an error without "error: ".
[[nodiscard]] std::string first_line(const Error& error);

// Ranges of the values in rows of any framework.
inline constexpr RunReader::Range kBatchRange{1, 1 << 16};
inline constexpr RunReader::Range kSequenceRange{1, 1 << 22};
inline constexpr RunReader::Range kWorldRange{1, 1 << 20};
/// A dimension of a published model.
inline constexpr RunReader::Range kDimensionRange{1, 1 << 24};

}  // namespace headroom::ir
