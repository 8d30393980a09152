// Text to `JsonValue`: what read_plain_json leaves over is read by nlohmann's parser.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "model_ir/json/json_value.h"
#include "model_ir/json/plain_json.h"

namespace headroom::ir {
namespace {

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
  /// The place where the text ends too early.
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

}  // namespace

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

}  // namespace headroom::ir
