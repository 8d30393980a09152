#include "model_ir/json/json_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "model_ir/json/plain_json.h"

namespace headroom::ir {
namespace {

constexpr double kWholeLimit = 9007199254740992.0;  // 2^53: above, doubles skip whole numbers.

/// Builds a `JsonValue` from the events of nlohmann's parser, which itself does not recurse.
class Builder {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the names that nlohmann's parser looks for.
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;
  // NOLINTEND(readability-identifier-naming)

  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return add(JsonValue{}); }
  bool boolean(bool value) { return add(JsonValue{value}); }
  bool number_integer(number_integer_t value) { return add(JsonValue{std::int64_t{value}}); }
  bool number_unsigned(number_unsigned_t value) {
    return value <= static_cast<number_unsigned_t>(INT64_MAX)
               ? add(JsonValue{static_cast<std::int64_t>(value)})
               : add(JsonValue{static_cast<double>(value)});
  }
  bool number_float(number_float_t value, const string_t& /*text*/) {
    return add(JsonValue{double{value}});
  }
  bool string(string_t& value) { return add(JsonValue{std::move(value)}); }
  bool binary(binary_t& /*value*/) { return fail("binary data", "JSON text"); }
  bool start_object(std::size_t /*size*/) { return open(JsonValue{JsonValue::Object{}}); }
  bool start_array(std::size_t /*size*/) { return open(JsonValue{JsonValue::Array{}}); }
  bool key(string_t& name) {
    open_.back().as_object()->push_back({std::move(name), JsonValue{}});
    return true;
  }
  bool end_object() { return check_keys() && close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& error) {
    offset_ = position;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
    // value - invalid literal; last read: '#'".
    std::string text = error.what();
    const std::size_t dash = text.find(" - ");
    std::string reason = dash == std::string::npos ? "a syntax error" : text.substr(dash + 3);
    reason.resize(std::min(reason.find("; expected "), reason.size()));  // One thing is expected.
    const bool ends = reason.starts_with("unexpected end of input");
    return fail(ends ? "the end of the text " + place() : reason, "valid JSON");
  }

  [[nodiscard]] JsonValue&& take() { return std::move(root_); }
  [[nodiscard]] Error error(std::string_view file) const {
    return Error::invalid_input(file, offset_ == 0 ? "" : "byte " + std::to_string(offset_), got_,
                                wanted_);
  }

 private:
  /// Where the text ends too early.
  [[nodiscard]] std::string place() const {
    if (open_.empty()) {
      return "where a value is expected";
    }
    return open_.back().as_array() != nullptr ? "inside an array" : "inside an object";
  }

  bool fail(std::string_view got, std::string_view wanted) {
    got_ = got;
    wanted_ = wanted;
    return false;
  }

  bool open(JsonValue container) {
    if (open_.size() >= limits_.depth) {
      return fail("arrays and objects nested deeper than " + std::to_string(limits_.depth),
                  "a flatter document");
    }
    open_.push_back(std::move(container));
    return true;
  }

  bool close() {
    JsonValue done = std::move(open_.back());
    open_.pop_back();
    return add(std::move(done));
  }

  bool add(JsonValue value) {
    if (++values_ > limits_.values) {
      return fail("more than " + std::to_string(limits_.values) + " values", "a smaller document");
    }
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (JsonValue::Array* array = open_.back().as_array()) {
      array->push_back(std::move(value));
    } else {
      open_.back().as_object()->back().value = std::move(value);
    }
    return true;
  }

  bool check_keys() {
    std::vector<std::string_view> keys;
    for (const JsonMember& member : *open_.back().as_object()) {
      keys.emplace_back(member.key);
    }
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    return twice == keys.end() ||
           fail("key '" + std::string(*twice) + "' twice in one object", "each key at most once");
  }

  const JsonLimits& limits_;
  std::vector<JsonValue> open_;
  JsonValue root_;
  std::size_t values_ = 0;
  std::size_t offset_ = 0;
  std::string got_;
  std::string wanted_;
};

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (code < 0x20) {
      out += "\\u00";
      out += kHex[code >> 4U];
      out += kHex[code & 15U];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";  // JSON has no word for it.
    return;
  }
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  const std::string_view digits(text.data(), static_cast<std::size_t>(end.ptr - text.data()));
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) {
    out += ".0";
  }
}

// Recursion is bounded by the depth of the value, which `parse_json` caps.
void append(std::string& out, const JsonValue& value) {
  if (const auto* object = value.as_object()) {
    out += '{';
    for (const JsonMember& member : *object) {
      out += out.back() == '{' ? "" : ", ";
      append_string(out, member.key);
      out += ": ";
      append(out, member.value);
    }
    out += '}';
  } else if (const auto* array = value.as_array()) {
    out += '[';
    bool first = true;
    for (const JsonValue& item : *array) {
      out += first ? "" : ", ";
      first = false;
      append(out, item);
    }
    out += ']';
  } else if (const std::string* text = value.as_string()) {
    append_string(out, *text);
  } else if (const auto flag = value.as_bool()) {
    out += *flag ? "true" : "false";
  } else if (value.is_null()) {
    out += "null";
  } else if (const auto whole = value.as_integer()) {
    out += std::to_string(*whole);
  } else {
    append_number(out, *value.as_number());
  }
}

}  // namespace

std::optional<bool> JsonValue::as_bool() const {
  const bool* value = std::get_if<bool>(&state_);
  return value != nullptr ? std::optional<bool>(*value) : std::nullopt;
}

std::optional<std::int64_t> JsonValue::as_integer() const {
  if (const std::int64_t* value = std::get_if<std::int64_t>(&state_)) {
    return *value;
  }
  const double* real = std::get_if<double>(&state_);
  if (real != nullptr && std::abs(*real) < kWholeLimit && std::trunc(*real) == *real) {
    return static_cast<std::int64_t>(*real);
  }
  return std::nullopt;
}

std::optional<double> JsonValue::as_number() const {
  if (const std::int64_t* value = std::get_if<std::int64_t>(&state_)) {
    return static_cast<double>(*value);
  }
  const double* real = std::get_if<double>(&state_);
  return real != nullptr ? std::optional<double>(*real) : std::nullopt;
}

const JsonValue* JsonValue::find(std::string_view key) const {
  if (const Object* object = as_object()) {
    for (const JsonMember& member : *object) {
      if (member.key == key) {
        return &member.value;
      }
    }
  }
  return nullptr;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): text, then its name, in all our parsers.
Result<JsonValue> parse_json(std::string_view text, std::string_view file,
                             const JsonLimits& limits) {
  // nlohmann's parser takes a NUL for the end of the text and ignores what follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return Error::invalid_input(file, "byte " + std::to_string(nul + 1), "a NUL byte", "JSON");
  }
  if (std::optional<JsonValue> plain = read_plain_json(text, limits)) {
    return *std::move(plain);
  }
  Builder builder(limits);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return builder.error(file);
  }
  return builder.take();
}

std::string to_json(const JsonValue& value) {
  std::string out;
  append(out, value);
  return out;
}

}  // namespace headroom::ir
