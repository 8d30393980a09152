#include "validators/measured/case_reader.h"

#include <algorithm>
#include <utility>

namespace headroom::check {

using ir::JsonValue;

CaseReader::CaseReader(const JsonValue* object, std::string path)
    : object_(object), path_(std::move(path)) {}

const JsonValue* CaseReader::take(std::string_view key) {
  const JsonValue* value = object_ != nullptr ? object_->find(key) : nullptr;
  if (value == nullptr) {
    return nullptr;
  }
  taken_.push_back(key);
  return value->is_null() ? nullptr : value;
}

bool CaseReader::is_null(std::string_view key) const {
  const JsonValue* value = object_ != nullptr ? object_->find(key) : nullptr;
  return value != nullptr && value->is_null();
}

void CaseReader::ignore(std::span<const std::string_view> keys) {
  taken_.insert(taken_.end(), keys.begin(), keys.end());
}

std::int64_t CaseReader::integer(std::string_view key, std::int64_t absent, Range range) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return absent;
  }
  const auto whole = value->as_integer();
  if (!whole || *whole < range.low || *whole > range.high) {
    fail(key, ir::to_json(*value) + " is not a whole number from " + std::to_string(range.low) +
                  " to " + std::to_string(range.high));
    return absent;
  }
  return *whole;
}

bool CaseReader::flag(std::string_view key, bool absent) {
  const JsonValue* value = take(key);
  const auto got = value != nullptr ? value->as_bool() : std::optional<bool>(absent);
  if (!got) {
    fail(key, ir::to_json(*value) + " is neither true nor false");
  }
  return got.value_or(absent);
}

double CaseReader::number(std::string_view key, double absent) {
  const JsonValue* value = take(key);
  const auto got = value != nullptr ? value->as_number() : std::optional<double>(absent);
  if (!got) {
    fail(key, ir::to_json(*value) + " is not a number");
  }
  return got.value_or(absent);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): key, then fallback, in every getter.
std::string CaseReader::text(std::string_view key, std::string_view absent) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return std::string(absent);
  }
  if (value->as_string() == nullptr) {
    fail(key, ir::to_json(*value) + " is not text");
    return std::string(absent);
  }
  return *value->as_string();
}

void CaseReader::fail(std::string_view key, std::string_view what) {
  if (!first_) {
    first_ = path_ + "." + std::string(key) + ": " + std::string(what);
  }
}

void CaseReader::absorb(const std::optional<std::string>& nested) {
  if (!first_ && nested) {
    first_ = nested;
  }
}

std::optional<std::string> CaseReader::trouble() const {
  if (first_ || object_ == nullptr || object_->as_object() == nullptr) {
    return first_;
  }
  for (const ir::JsonMember& member : *object_->as_object()) {
    const bool known = std::find(taken_.begin(), taken_.end(), member.key) != taken_.end();
    if (!known && !member.value.is_null()) {
      return path_ + "." + member.key + ": not modelled";
    }
  }
  return std::nullopt;
}

}  // namespace headroom::check
