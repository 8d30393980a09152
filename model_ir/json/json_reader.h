#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/file.h"
#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// Least and greatest value a field may have, both inclusive.
struct IntegerRange {
  std::int64_t least = INT64_MIN;
  std::int64_t greatest = INT64_MAX;
};

/// As `IntegerRange`; NaN and infinity are never accepted.
struct NumberRange {
  double least = -1.7976931348623157e308;
  double greatest = 1.7976931348623157e308;
};

class JsonReader;

/// An object of a document, read field by field. If a field has the wrong type or range, the reader
/// notes the fault with its place and returns a harmless value. Reading goes on, so that one run
/// reports every fault. Cheap to copy; valid as long as its `JsonReader` is.
///
/// Getters come in three forms: `integer` demands the field, `optional_integer` yields nothing if
/// it is absent or null, `integer_or` takes a fallback if it is absent or null.
class JsonObject {
 public:
  /// Present and not null. The key counts as known afterwards, like a field that was read.
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool is_null(std::string_view key) const;

  [[nodiscard]] std::int64_t integer(std::string_view key, IntegerRange range) const;
  [[nodiscard]] std::optional<std::int64_t> optional_integer(std::string_view key,
                                                             IntegerRange range) const;
  [[nodiscard]] std::int64_t integer_or(std::string_view key, std::int64_t fallback,
                                        IntegerRange range) const;

  [[nodiscard]] double number(std::string_view key, NumberRange range = {}) const;
  [[nodiscard]] std::optional<double> optional_number(std::string_view key,
                                                      NumberRange range = {}) const;
  [[nodiscard]] double number_or(std::string_view key, double fallback,
                                 NumberRange range = {}) const;

  [[nodiscard]] bool boolean(std::string_view key) const;
  [[nodiscard]] std::optional<bool> optional_boolean(std::string_view key) const;
  [[nodiscard]] bool boolean_or(std::string_view key, bool fallback) const;
  /// Whether the field is true; one of another type is not, and no fault.
  [[nodiscard]] bool is_true(std::string_view key) const;
  /// Whether the field is an array of texts; another type is no fault.
  [[nodiscard]] bool has_texts(std::string_view key) const;
  /// Whether the field is this text; one of another type is not, and no fault.
  [[nodiscard]] bool is_word(std::string_view key, std::string_view word) const;

  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> optional_text(std::string_view key) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view fallback) const;

  /// Empty if absent or null.
  [[nodiscard]] std::vector<std::int64_t> integers_or_none(std::string_view key,
                                                           IntegerRange range) const;
  [[nodiscard]] std::vector<double> numbers_or_none(std::string_view key,
                                                    NumberRange range = {}) const;
  [[nodiscard]] std::vector<std::string> texts_or_none(std::string_view key) const;
  [[nodiscard]] std::vector<JsonObject> objects_or_none(std::string_view key) const;

  /// A missing field is noted and reads as an object without fields.
  [[nodiscard]] JsonObject object(std::string_view key) const;
  [[nodiscard]] std::optional<JsonObject> optional_object(std::string_view key) const;

  /// Keys in the order of the file.
  [[nodiscard]] std::vector<std::string> keys() const;

  /// Whether a fault was noted anywhere in the document.
  [[nodiscard]] bool any_faults() const;
  /// Says that `key` is known and needs no reading.
  void accept(std::string_view key) const;
  /// Notes that the value of `key` cannot be accepted.
  void refuse(std::string_view key, std::string_view wanted, std::string_view fix = {}) const;
  /// Notes that fields of this object do not fit together; `got` names them with their values.
  void refuse_product(std::string_view got, std::string_view wanted) const;
  /// JSON pointer of a field of this object, or of the object itself if `key` is empty.
  [[nodiscard]] std::string pointer(std::string_view key = {}) const;

 private:
  friend class JsonReader;
  struct State;
  JsonObject(State* reader, const JsonValue* value, std::string pointer);

  [[nodiscard]] const JsonValue* find(std::string_view key) const;
  [[nodiscard]] const JsonValue* demand(std::string_view key, std::string_view wanted) const;
  void note(std::string_view key, const JsonValue& got, std::string_view wanted,
            std::string_view fix = {}) const;

  State* reader_;
  const JsonValue* value_;
  std::string pointer_;
};

/// A JSON document being read; owns the text's values and gathers the faults found in them.
class JsonReader {
 public:
  /// Errors:  those of `read_file` and of `from_text`.
  [[nodiscard]] static Result<JsonReader> from_file(const std::string& path,
                                                    std::int64_t limit = kTextFileLimit);
  /// `file` names the text in messages.
  ///
  /// Errors:  kInvalidInput, with line and column, if the text is no JSON, nests too deeply, names
  ///          a key twice or is no object.
  [[nodiscard]] static Result<JsonReader> from_text(std::string_view text, std::string_view file);
  /// The root of a text, for several readers of the same document.
  ///
  /// Errors:  those of `from_text`.
  [[nodiscard]] static Result<JsonValue> parse_root(std::string_view text, std::string_view file);
  /// Reads a root that `parse_root` gave. Requires that it is an object.
  [[nodiscard]] static JsonReader from_root(std::shared_ptr<const JsonValue> root,
                                            std::string_view file);

  JsonReader(JsonReader&& other) noexcept;
  JsonReader& operator=(JsonReader&& other) noexcept;
  ~JsonReader();

  [[nodiscard]] JsonObject root() const;
  [[nodiscard]] const std::string& file() const;
  [[nodiscard]] bool has_errors() const;

  /// Pointers of the fields that nobody requested, in the order of the file. An object that nobody
  /// opened counts as one field.
  [[nodiscard]] std::vector<std::string> unread() const;

  /// Pointers of the fields that were requested and are null, in the order of the file.
  [[nodiscard]] std::vector<std::string> nulls() const;

  /// For our own files: every unread field is a fault, too. Returns one error for all faults: the
  /// first fault, with the rest as notes.
  [[nodiscard]] Status finish_refusing_unknown_keys() const;
  /// For files of others, which may contain more than we need.
  [[nodiscard]] Status finish() const;

 private:
  explicit JsonReader(std::unique_ptr<JsonObject::State> state);
  std::unique_ptr<JsonObject::State> state_;
};

/// A value as messages quote it: long values are described instead.
[[nodiscard]] std::string describe(const JsonValue& value);

/// "line L, column C" of a byte of `text`, both counted from 1.
[[nodiscard]] std::string line_and_column(std::string_view text, std::size_t offset);

}  // namespace headroom::ir
