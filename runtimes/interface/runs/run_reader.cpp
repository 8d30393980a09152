#include "runtimes/interface/runs/run_reader.h"

#include <algorithm>
#include <utility>

namespace headroom::ir {

bool begins_with(std::string_view words, std::string_view beginning) {
  if (!words.starts_with(beginning)) {
    return false;
  }
  const std::string_view rest = words.substr(beginning.size());
  return rest.empty() || rest.front() == ' ';
}

RunReader::RunReader(const JsonValue* object, std::string path)
    : object_(object), path_(std::move(path)) {}

const JsonValue* RunReader::take(std::string_view key) {
  const JsonValue* value = peek(key);
  taken_.push_back(key);
  return value;
}

const JsonValue* RunReader::peek(std::string_view key) const {
  const JsonValue* value = object_ != nullptr ? object_->find(key) : nullptr;
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool RunReader::is_null(std::string_view key) const {
  const JsonValue* value = object_ != nullptr ? object_->find(key) : nullptr;
  return value != nullptr && value->is_null();
}

void RunReader::ignore(std::span<const std::string_view> keys) {
  taken_.insert(taken_.end(), keys.begin(), keys.end());
}

void RunReader::ignore_rest() {
  if (object_ != nullptr && object_->as_object() != nullptr) {
    for (const JsonMember& member : *object_->as_object()) {
      taken_.push_back(member.key);
    }
  }
}

std::int64_t RunReader::integer(std::string_view key, std::int64_t absent, Range range) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return absent;
  }
  const auto whole = value->as_integer();
  if (!whole || *whole < range.low || *whole > range.high) {
    fail(key, to_json(*value) + " is not a whole number from " + std::to_string(range.low) +
                  " to " + std::to_string(range.high));
    return absent;
  }
  return *whole;
}

std::int64_t RunReader::stated(std::string_view key, Range range) {
  const std::int64_t value = integer(key, 0, range);
  if (value == 0) {
    fail(key, "not stated");
  }
  return value;
}

bool RunReader::flag(std::string_view key, bool absent) {
  const JsonValue* value = take(key);
  const auto got = value != nullptr ? value->as_bool() : std::optional<bool>(absent);
  if (!got) {
    fail(key, to_json(*value) + " is neither true nor false");
  }
  return got.value_or(absent);
}

double RunReader::number(std::string_view key, double absent) {
  const JsonValue* value = take(key);
  const auto got = value != nullptr ? value->as_number() : std::optional<double>(absent);
  if (!got) {
    fail(key, to_json(*value) + " is not a number");
  }
  return got.value_or(absent);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): key, then fallback, in every getter.
std::string RunReader::text(std::string_view key, std::string_view absent) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return std::string(absent);
  }
  if (value->as_string() == nullptr) {
    fail(key, to_json(*value) + " is not text");
    return std::string(absent);
  }
  return *value->as_string();
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): key, then text, as in every getter.
void RunReader::expect(std::string_view key, std::string_view modelled) {
  if (const std::string got = text(key, modelled); got != modelled) {
    fail(key, "'" + got + "'");
  }
}

void RunReader::expect_one_of(std::string_view key, std::initializer_list<std::string_view> known) {
  const std::string words = text(key, "");
  if (std::find(known.begin(), known.end(), words) == known.end()) {
    fail_words(key, words);
  }
}

void RunReader::expect_none(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const JsonValue* value = take(key);
    const bool none = value == nullptr || value->as_bool() == false ||
                      (value->as_string() != nullptr && *value->as_string() == "none");
    if (!none) {
      fail(key, to_json(*value));
    }
  }
}

void RunReader::expect_one(std::initializer_list<std::string_view> degrees) {
  for (const std::string_view degree : degrees) {
    if (integer(degree, 1, kWorldRange) != 1) {
      fail(degree, "must be 1");
    }
  }
}

void RunReader::fail_words(std::string_view key, std::string_view words) {
  fail(key, words.empty() ? "not stated" : "'" + std::string(words) + "'");
}

void RunReader::refuse(const Error& error) {
  absorb(first_line(error));
}

void RunReader::fail(std::string_view key, std::string_view what) {
  if (!first_) {
    first_ = path_ + "." + std::string(key) + ": " + std::string(what);
  }
}

void RunReader::absorb(const std::optional<std::string>& nested) {
  if (!first_ && nested) {
    first_ = nested;
  }
}

std::optional<std::string> RunReader::trouble() const {
  if (first_ || object_ == nullptr || object_->as_object() == nullptr) {
    return first_;
  }
  for (const JsonMember& member : *object_->as_object()) {
    const bool known = std::find(taken_.begin(), taken_.end(), member.key) != taken_.end();
    if (!known && !member.value.is_null()) {
      return path_ + "." + member.key + ": not modelled";
    }
  }
  return std::nullopt;
}

std::string first_line(const Error& error) {
  std::string text = to_text(error);
  text.resize(std::min(text.find('\n'), text.size()));
  constexpr std::string_view kPrefix = "error: ";
  return text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text;
}

}  // namespace headroom::ir
