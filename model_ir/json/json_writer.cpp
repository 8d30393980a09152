#include "model_ir/json/json_writer.h"

#include <algorithm>
#include <cstddef>

namespace headroom::ir {
namespace {

constexpr std::size_t kLineWidth = 100;

bool is_container(const JsonValue& value) {
  return value.as_array() != nullptr || value.as_object() != nullptr;
}

/// Whether an array or object contains another array or object.
bool holds_container(const JsonValue& value) {
  if (const JsonValue::Array* items = value.as_array()) {
    return std::any_of(items->begin(), items->end(), is_container);
  }
  const JsonValue::Object* members = value.as_object();
  return members != nullptr &&
         std::any_of(members->begin(), members->end(),
                     [](const JsonMember& member) { return is_container(member.value); });
}

void start_line(std::string& out, std::size_t level) {
  out += '\n';
  out.append(2 * level, ' ');
}

// Recursion is bounded by the depth of the value.
void append(std::string& out, const JsonValue& value, std::size_t level) {
  if (!holds_container(value)) {
    const std::string line = to_json(value);
    const std::size_t column = out.size() - (out.rfind('\n') + 1);  // npos + 1 is 0.
    if (!is_container(value) || column + line.size() <= kLineWidth) {
      out += line;
      return;
    }
  }
  const JsonValue::Object* members = value.as_object();
  out += members != nullptr ? '{' : '[';
  const char* separator = "";
  if (members != nullptr) {
    for (const JsonMember& member : *members) {
      out += separator;
      separator = ",";
      start_line(out, level + 1);
      out += to_json(JsonValue{member.key});
      out += ": ";
      append(out, member.value, level + 1);
    }
  } else {
    for (const JsonValue& item : *value.as_array()) {
      out += separator;
      separator = ",";
      start_line(out, level + 1);
      append(out, item, level + 1);
    }
  }
  start_line(out, level);
  out += members != nullptr ? '}' : ']';
}

}  // namespace

JsonFields& JsonFields::add(std::string_view key, JsonValue value) {
  members_.push_back({std::string(key), std::move(value)});
  return *this;
}

JsonFields& JsonFields::add(std::string_view key, JsonFields fields) {
  return add(key, std::move(fields).finish());
}

JsonFields& JsonFields::add(std::string_view key, std::string_view text) {
  return add(key, JsonValue{std::string(text)});
}

JsonFields& JsonFields::add(std::string_view key, const char* text) {
  return add(key, JsonValue{text});
}

JsonFields& JsonFields::add(std::string_view key, const std::string& text) {
  return add(key, JsonValue{text});
}

JsonFields& JsonFields::add(std::string_view key, Bytes bytes) {
  return add(key, JsonValue{bytes.value()});
}

JsonFields& JsonFields::add(std::string_view key, double number) {
  return add(key, JsonValue{number});
}

JsonFields& JsonFields::add(std::string_view key, bool flag) {
  return add(key, JsonValue{flag});
}

JsonValue json_texts(const std::vector<std::string>& texts) {
  JsonValue::Array items;
  for (const std::string& text : texts) {
    items.emplace_back(text);
  }
  return JsonValue{std::move(items)};
}

std::string to_pretty_json(const JsonValue& value) {
  std::string out;
  append(out, value, 0);
  return out;
}

}  // namespace headroom::ir
