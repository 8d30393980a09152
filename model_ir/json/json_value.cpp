#include "model_ir/json/json_value.h"

#include <array>
#include <charconv>
#include <cmath>

namespace headroom::ir {
namespace {

constexpr double kWholeLimit = 9007199254740992.0;  // 2^53: above, doubles skip whole numbers.

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

JsonValue::JsonValue() noexcept = default;
JsonValue::JsonValue(const JsonValue& other) = default;
JsonValue::JsonValue(JsonValue&& other) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue& other) = default;
JsonValue& JsonValue::operator=(JsonValue&& other) noexcept = default;
JsonValue::~JsonValue() = default;

JsonValue::JsonValue(bool value) : state_(value) {}
JsonValue::JsonValue(std::int64_t value) : state_(value) {}
JsonValue::JsonValue(double value) : state_(value) {}
JsonValue::JsonValue(std::string value) : state_(std::move(value)) {}
JsonValue::JsonValue(const char* value) : state_(std::string(value)) {}
JsonValue::JsonValue(Array value) : state_(std::move(value)) {}
JsonValue::JsonValue(Object value) : state_(std::move(value)) {}

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

std::string to_json(const JsonValue& value) {
  std::string out;
  append(out, value);
  return out;
}

}  // namespace headroom::ir
