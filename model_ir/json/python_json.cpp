#include "model_ir/json/python_json.h"

#include <array>
#include <cstddef>

namespace headroom::ir {
namespace {

constexpr std::array<std::string_view, 3> kNumbers = {"-Infinity", "Infinity", "NaN"};

/// The end of the quoted text that begins at `at`: behind its closing quote, or that of the text.
std::size_t end_of_quoted(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') {
      ++at;  // The next character is escaped.
    }
  }
  return at < text.size() ? at + 1 : text.size();
}

/// The end of a number as transformers 5 writes it, `{"__float__": "Infinity"}`, which begins at
/// `at`; 0 if there is none.
std::size_t end_of_tagged(std::string_view text, std::size_t at) {
  constexpr std::string_view kTag = "\"__float__\"";
  if (text[at] != '{') {
    return 0;
  }
  const std::size_t key = text.find_first_not_of(" \t\r\n", at + 1);
  const bool is_tagged = key != std::string_view::npos && text.substr(key, kTag.size()) == kTag;
  const std::size_t end = is_tagged ? text.find('}', key) : std::string_view::npos;
  return end == std::string_view::npos ? 0 : end + 1;
}

}  // namespace

bool has_python_numbers(std::string_view text) {
  return text.find("Infinity") != std::string_view::npos ||
         text.find("NaN") != std::string_view::npos;
}

std::string json_of_python(std::string_view text) {
  if (!has_python_numbers(text)) {
    return std::string(text);
  }
  std::string json;
  json.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    std::string_view written = text.substr(at, 1);
    if (text[at] == '"') {
      end = end_of_quoted(text, at);
      written = text.substr(at, end - at);
    }
    if (const std::size_t tagged = end_of_tagged(text, at); tagged != 0) {
      end = tagged;
      written = "null";
    }
    for (const std::string_view number : kNumbers) {
      if (text.substr(at, number.size()) == number) {
        end = at + number.size();
        written = "null";
        break;
      }
    }
    json += written;
    at = end;
  }
  return json;
}

}  // namespace headroom::ir
