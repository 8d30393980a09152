#include "model_ir/json/json_reader.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace headroom::ir {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 20;  ///< Far above any file of this form.
constexpr std::size_t kQuotedLength = 60;        ///< Longest value quoted whole in a message.
constexpr std::size_t kShortestMisspelling = 4;  ///< Shorter keys resemble anything.
constexpr std::size_t kMostNotes = 20;           ///< Faults listed after the first one.

/// `text` as one step of a JSON pointer (RFC 6901, section 3).
std::string escaped(std::string_view text) {
  std::string step;
  for (const char c : text) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

std::string expected_integer(IntegerRange range) {
  if (range.greatest == INT64_MAX) {
    return range.least == INT64_MIN ? "an integer"
                                    : "an integer of at least " + std::to_string(range.least);
  }
  return "an integer from " + std::to_string(range.least) + " to " + std::to_string(range.greatest);
}

std::string expected_number(NumberRange range) {
  const NumberRange any;
  const bool has_least = range.least > any.least;
  const bool has_greatest = range.greatest < any.greatest;
  const std::string least = to_json(JsonValue(range.least));
  if (has_least && has_greatest) {
    return "a number from " + least + " to " + to_json(JsonValue(range.greatest));
  }
  return has_least ? "a number of at least " + least : "a finite number";
}

std::string as_note(const Error& error) {
  std::string note = "also " + (error.pointer.empty() ? "" : error.pointer + ": ") + "got " +
                     error.got + ", expected " + error.wanted;
  return error.fix.empty() ? note : note + " (" + error.fix + ")";
}

}  // namespace

struct JsonObject::State {
  /// An object that was read, and the keys that were requested from it.
  struct Opened {
    const JsonValue* object = nullptr;
    std::vector<std::string> asked;
  };

  std::string file;
  std::shared_ptr<const JsonValue> root;
  JsonValue nothing{JsonValue::Object{}};  ///< Used in place of a missing object.
  std::vector<Opened> opened;
  std::vector<Error> errors;

  Opened& open(const JsonValue* object) {
    const auto found = std::find_if(opened.begin(), opened.end(),
                                    [object](const Opened& o) { return o.object == object; });
    return found != opened.end() ? *found : opened.emplace_back(Opened{object, {}});
  }
  [[nodiscard]] const Opened* find(const JsonValue* object) const {
    const auto found = std::find_if(opened.begin(), opened.end(),
                                    [object](const Opened& o) { return o.object == object; });
    return found != opened.end() ? &*found : nullptr;
  }

  /// Calls `visit(pointer, field, requested keys, whether it was requested)` for every field below
  /// `value`, and for those below the requested ones.
  template <typename Visit>
  void walk(const JsonValue& value, const std::string& pointer, const Visit& visit) const {
    if (const JsonValue::Array* items = value.as_array()) {
      for (std::size_t i = 0; i < items->size(); ++i) {
        walk((*items)[i], pointer + "/" + std::to_string(i), visit);
      }
      return;
    }
    const Opened* object = find(&value);
    if (object == nullptr) {
      return;
    }
    for (const JsonMember& member : *value.as_object()) {
      const std::string place = pointer + "/" + escaped(member.key);
      const auto& asked = object->asked;
      const bool requested = std::find(asked.begin(), asked.end(), member.key) != asked.end();
      visit(place, member, asked, requested);
      if (requested) {
        walk(member.value, place, visit);
      }
    }
  }

  [[nodiscard]] static Status merged(std::vector<Error> faults) {
    if (faults.empty()) {
      return ok();
    }
    Error first = std::move(faults.front());
    for (std::size_t i = 1; i < faults.size() && i <= kMostNotes; ++i) {
      first.notes.push_back(as_note(faults[i]));
    }
    if (faults.size() > kMostNotes + 1) {
      first.notes.push_back("and " + std::to_string(faults.size() - kMostNotes - 1) + " more");
    }
    return first;
  }
};

std::string describe(const JsonValue& value) {
  if (const JsonValue::Array* items = value.as_array()) {
    return "an array of " + std::to_string(items->size());
  }
  if (value.as_object() != nullptr) {
    return "an object";
  }
  std::string text = to_json(value);
  if (text.size() > kQuotedLength) {
    text.resize(kQuotedLength);
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) {
      text.pop_back();  // Do not cut a character in half: drop its last bytes, then its first one.
    }
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0U) {
      text.pop_back();
    }
    text += "...";
  }
  return text;
}

std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(before.size() - start + 1);
}

JsonObject::JsonObject(State* reader, const JsonValue* value, std::string pointer)
    : reader_(reader), value_(value), pointer_(std::move(pointer)) {
  reader_->open(value_);
}

std::string JsonObject::pointer(std::string_view key) const {
  return key.empty() ? pointer_ : pointer_ + "/" + escaped(key);
}

bool JsonObject::any_faults() const {
  return !reader_->errors.empty();
}

void JsonObject::accept(std::string_view key) const {
  auto& asked = reader_->open(value_).asked;
  if (std::find(asked.begin(), asked.end(), key) == asked.end()) {
    asked.emplace_back(key);
  }
}

const JsonValue* JsonObject::find(std::string_view key) const {
  accept(key);
  const JsonValue* value = value_->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void JsonObject::note(std::string_view key, const JsonValue& got, std::string_view wanted,
                      std::string_view fix) const {
  reader_->errors.push_back(
      Error::invalid_input(reader_->file, pointer(key), describe(got), wanted, fix));
}

void JsonObject::refuse(std::string_view key, std::string_view wanted, std::string_view fix) const {
  accept(key);
  const JsonValue* value = value_->find(key);
  if (value != nullptr) {
    note(key, *value, wanted, fix);
    return;
  }
  const std::vector<std::string> present = keys();
  std::string remedy(fix);
  const auto near = key.size() >= kShortestMisspelling ? closest_word(key, present) : std::nullopt;
  if (near && remedy.empty()) {
    remedy = "rename \"" + *near + "\" to \"" + std::string(key) + "\"";
  } else if (remedy.empty()) {
    remedy = "add \"" + std::string(key) + "\"";
  }
  reader_->errors.push_back(
      Error::invalid_input(reader_->file, pointer(key), "nothing", wanted, remedy));
}

void JsonObject::refuse_product(std::string_view got, std::string_view wanted) const {
  reader_->errors.push_back(Error::invalid_input(reader_->file, pointer_, got, wanted,
                                                 "check these sizes, one is too large"));
}

const JsonValue* JsonObject::demand(std::string_view key, std::string_view wanted) const {
  const JsonValue* value = find(key);
  if (value == nullptr) {
    refuse(key, wanted);
  }
  return value;
}

bool JsonObject::has(std::string_view key) const {
  return find(key) != nullptr;
}

bool JsonObject::is_null(std::string_view key) const {
  accept(key);
  const JsonValue* value = value_->find(key);
  return value != nullptr && value->is_null();
}

std::int64_t JsonObject::integer(std::string_view key, IntegerRange range) const {
  (void)demand(key, expected_integer(range));
  return integer_or(key, range.least > 0 ? range.least : 0, range);
}

std::optional<std::int64_t> JsonObject::optional_integer(std::string_view key,
                                                         IntegerRange range) const {
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> read = value->as_integer();
  if (!read || *read < range.least || *read > range.greatest) {
    note(key, *value, expected_integer(range));
    return std::nullopt;
  }
  return read;
}

std::int64_t JsonObject::integer_or(std::string_view key, std::int64_t fallback,
                                    IntegerRange range) const {
  return optional_integer(key, range).value_or(fallback);
}

double JsonObject::number(std::string_view key, NumberRange range) const {
  (void)demand(key, expected_number(range));
  return number_or(key, 0, range);
}

std::optional<double> JsonObject::optional_number(std::string_view key, NumberRange range) const {
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::optional<double> read = value->as_number();
  if (!read || !std::isfinite(*read) || *read < range.least || *read > range.greatest) {
    note(key, *value, expected_number(range));
    return std::nullopt;
  }
  return read;
}

double JsonObject::number_or(std::string_view key, double fallback, NumberRange range) const {
  return optional_number(key, range).value_or(fallback);
}

bool JsonObject::boolean(std::string_view key) const {
  (void)demand(key, "true or false");
  return boolean_or(key, false);
}

std::optional<bool> JsonObject::optional_boolean(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::optional<bool> read = value->as_bool();
  if (!read) {
    note(key, *value, "true or false");
  }
  return read;
}

bool JsonObject::boolean_or(std::string_view key, bool fallback) const {
  return optional_boolean(key).value_or(fallback);
}

bool JsonObject::is_true(std::string_view key) const {
  const JsonValue* value = find(key);
  return value != nullptr && value->as_bool() == true;
}

bool JsonObject::has_texts(std::string_view key) const {
  const JsonValue* value = find(key);
  const JsonValue::Array* items = value != nullptr ? value->as_array() : nullptr;
  return items != nullptr && std::all_of(items->begin(), items->end(), [](const JsonValue& item) {
           return item.as_string() != nullptr;
         });
}

bool JsonObject::is_word(std::string_view key, std::string_view word) const {
  const JsonValue* value = find(key);
  return value != nullptr && value->as_string() != nullptr && *value->as_string() == word;
}

std::string JsonObject::text(std::string_view key) const {
  (void)demand(key, "a string");
  return text_or(key, "");
}

std::optional<std::string> JsonObject::optional_text(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::string* read = value->as_string();
  if (read == nullptr) {
    note(key, *value, "a string");
    return std::nullopt;
  }
  return *read;
}

std::string JsonObject::text_or(std::string_view key, std::string_view fallback) const {
  return optional_text(key).value_or(std::string(fallback));
}

std::vector<std::int64_t> JsonObject::integers_or_none(std::string_view key,
                                                       IntegerRange range) const {
  std::vector<std::int64_t> read;
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return read;
  }
  const JsonValue::Array* items = value->as_array();
  if (items == nullptr) {
    note(key, *value, "an array of integers");
    return read;
  }
  for (const JsonValue& item : *items) {
    const auto number = item.as_integer();
    if (!number || *number < range.least || *number > range.greatest) {
      note(key, item, "in every place " + expected_integer(range));
      return {};
    }
    read.push_back(*number);
  }
  return read;
}

std::vector<double> JsonObject::numbers_or_none(std::string_view key, NumberRange range) const {
  std::vector<double> read;
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return read;
  }
  const JsonValue::Array* items = value->as_array();
  if (items == nullptr) {
    note(key, *value, "an array of numbers");
    return read;
  }
  for (const JsonValue& item : *items) {
    const auto number = item.as_number();
    if (!number || *number < range.least || *number > range.greatest) {
      note(key, item, "in every place " + expected_number(range));
      return {};
    }
    read.push_back(*number);
  }
  return read;
}

std::vector<std::string> JsonObject::texts_or_none(std::string_view key) const {
  std::vector<std::string> read;
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return read;
  }
  const JsonValue::Array* items = value->as_array();
  if (items == nullptr) {
    note(key, *value, "an array of strings");
    return read;
  }
  for (const JsonValue& item : *items) {
    if (item.as_string() == nullptr) {
      note(key, item, "in every place a string");
      return {};
    }
    read.push_back(*item.as_string());
  }
  return read;
}

std::vector<JsonObject> JsonObject::objects_or_none(std::string_view key) const {
  std::vector<JsonObject> read;
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return read;
  }
  const JsonValue::Array* items = value->as_array();
  if (items == nullptr) {
    note(key, *value, "an array of objects");
    return read;
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    const JsonValue& item = (*items)[i];
    if (item.as_object() == nullptr) {
      note(key, item, "in every place an object");
      return {};
    }
    read.push_back(JsonObject(reader_, &item, pointer(key) + "/" + std::to_string(i)));
  }
  return read;
}

std::optional<JsonObject> JsonObject::optional_object(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (value->as_object() == nullptr) {
    note(key, *value, "an object");
    return std::nullopt;
  }
  return JsonObject(reader_, value, pointer(key));
}

JsonObject JsonObject::object(std::string_view key) const {
  (void)demand(key, "an object");
  const std::optional<JsonObject> read = optional_object(key);
  return read ? *read : JsonObject(reader_, &reader_->nothing, pointer(key));
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> names;
  for (const JsonMember& member : *value_->as_object()) {
    names.push_back(member.key);
  }
  return names;
}

JsonReader::JsonReader(std::unique_ptr<JsonObject::State> state) : state_(std::move(state)) {}
JsonReader::JsonReader(JsonReader&& other) noexcept = default;
JsonReader& JsonReader::operator=(JsonReader&& other) noexcept = default;
JsonReader::~JsonReader() = default;

Result<JsonReader> JsonReader::from_file(const std::string& path, std::int64_t limit) {
  Result<std::string> text = read_file(path, limit);
  if (!text) {
    return std::move(text).error();
  }
  return from_text(*text, path);
}

Result<JsonValue> JsonReader::parse_root(std::string_view text, std::string_view file) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return Error::invalid_input(file, "", "an empty file", "a JSON object");
  }
  Result<JsonValue> root = parse_json(text, file, JsonLimits{.values = kMostValues});
  if (!root) {
    Error error = std::move(root).error();
    constexpr std::string_view kByte = "byte ";
    if (error.pointer.rfind(kByte, 0) == 0) {  // People count lines, not bytes.
      const auto offset = std::stoull(error.pointer.substr(kByte.size()));
      error.pointer = line_and_column(text, static_cast<std::size_t>(offset > 0 ? offset - 1 : 0));
    }
    return error;
  }
  if (root->as_object() == nullptr) {
    return Error::invalid_input(file, "", describe(*root), "a JSON object");
  }
  return root;
}

JsonReader JsonReader::from_root(std::shared_ptr<const JsonValue> root, std::string_view file) {
  HEADROOM_ASSERT(root != nullptr && root->as_object() != nullptr);
  auto state = std::make_unique<JsonObject::State>();
  state->file = file;
  state->root = std::move(root);
  return JsonReader(std::move(state));
}

Result<JsonReader> JsonReader::from_text(std::string_view text, std::string_view file) {
  Result<JsonValue> root = parse_root(text, file);
  return root ? Result<JsonReader>(
                    from_root(std::make_shared<const JsonValue>(std::move(root).value()), file))
              : Result<JsonReader>(std::move(root).error());
}

JsonObject JsonReader::root() const {
  return {state_.get(), state_->root.get(), ""};
}

const std::string& JsonReader::file() const {
  return state_->file;
}

bool JsonReader::has_errors() const {
  return !state_->errors.empty();
}

std::vector<std::string> JsonReader::nulls() const {
  std::vector<std::string> nulls;
  state_->walk(*state_->root, "",
               [&nulls](const std::string& place, const JsonMember& member,
                        const std::vector<std::string>&, bool requested) {
                 if (requested && member.value.is_null()) {
                   nulls.push_back(place);
                 }
               });
  return nulls;
}

std::vector<std::string> JsonReader::unread() const {
  std::vector<std::string> pointers;
  state_->walk(*state_->root, "",
               [&pointers](const std::string& place, const JsonMember&,
                           const std::vector<std::string>&, bool requested) {
                 if (!requested) {
                   pointers.push_back(place);
                 }
               });
  return pointers;
}

Status JsonReader::finish_refusing_unknown_keys() const {
  std::vector<Error> faults = state_->errors;
  state_->walk(*state_->root, "",
               [&](const std::string& place, const JsonMember& member,
                   const std::vector<std::string>& asked, bool requested) {
                 if (requested) {
                   return;
                 }
                 const auto near = closest_word(member.key, asked);
                 faults.push_back(Error::invalid_input(
                     state_->file, place, "\"" + member.key + "\"", "a known key",
                     near ? "did you mean \"" + *near + "\"?" : "remove it"));
               });
  return JsonObject::State::merged(std::move(faults));
}

Status JsonReader::finish() const {
  return JsonObject::State::merged(state_->errors);
}

}  // namespace headroom::ir
