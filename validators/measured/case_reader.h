#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/json/json_value.h"

namespace headroom::check {

/// A word of a case and what it stands for.
template <typename T>
struct Word {
  std::string_view word;
  T value;
};

/// Reads the keys of a case one by one and remembers the first thing it could not take: a value of
/// the wrong kind, an unknown word, and at the end a key that nobody asked for. What is left unread
/// could change what happens, so a case with trouble is skipped, never half understood.
class CaseReader {
 public:
  /// `path` names the object in messages: "case", "case.lora". `object` must outlive the reader;
  /// anything but an object counts as empty.
  CaseReader(const ir::JsonValue* object, std::string path);

  /// The value of `key`; nullptr if absent or null. Marks the key as read.
  const ir::JsonValue* take(std::string_view key);
  /// Whether `key` is there and holds null.
  [[nodiscard]] bool is_null(std::string_view key) const;
  /// Keys that change nothing about memory.
  void ignore(std::span<const std::string_view> keys);

  struct Range {
    std::int64_t low = 0;
    std::int64_t high = 0;
  };
  std::int64_t integer(std::string_view key, std::int64_t absent, Range range);
  bool flag(std::string_view key, bool absent);
  double number(std::string_view key, double absent);
  std::string text(std::string_view key, std::string_view absent);
  template <typename T>
  T word(std::string_view key, std::string_view absent, std::span<const Word<T>> words) {
    const std::string got = text(key, absent);
    for (const Word<T>& known : words) {
      if (known.word == got) {
        return known.value;
      }
    }
    fail(key, "'" + got + "'");
    return words.front().value;
  }

  /// Notes that `key` holds something that cannot be followed; the first note stays.
  void fail(std::string_view key, std::string_view what);
  /// Takes over the trouble of a reader of a nested object.
  void absorb(const std::optional<std::string>& nested);
  /// "case.attention: 'flex'", for the first trouble or key left unread.
  [[nodiscard]] std::optional<std::string> trouble() const;

 private:
  const ir::JsonValue* object_;
  std::string path_;
  std::vector<std::string_view> taken_;
  std::optional<std::string> first_;
};

}  // namespace headroom::check
