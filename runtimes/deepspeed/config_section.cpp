#include "runtimes/deepspeed/config_section.h"

#include <algorithm>
#include <utility>

namespace headroom::ir::deepspeed {
namespace {

constexpr std::string_view kAuto = "auto";

}  // namespace

ConfigSection::ConfigSection(const JsonValue* value, std::string pointer, Findings& findings)
    : value_(value), pointer_(std::move(pointer)), findings_(&findings) {}

bool ConfigSection::has(std::string_view key) const {
  const JsonValue* value = value_ == nullptr ? nullptr : value_->find(key);
  return value != nullptr && !value->is_null();
}

bool ConfigSection::is_auto(std::string_view key) const {
  const JsonValue* value = value_ == nullptr ? nullptr : value_->find(key);
  return value != nullptr && value->as_string() != nullptr && *value->as_string() == kAuto;
}

const JsonValue* ConfigSection::take(std::string_view key) {
  known_.emplace_back(key);
  const JsonValue* value = value_ == nullptr ? nullptr : value_->find(key);
  return value == nullptr || value->is_null() || is_auto(key) ? nullptr : value;
}

std::optional<std::int64_t> ConfigSection::integer(std::string_view key, IntegerRange range) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> whole = value->as_integer();
  if (!whole || *whole < range.least || *whole > range.greatest) {
    refuse(key, "\"auto\" or a whole number from " + std::to_string(range.least) + " to " +
                    std::to_string(range.greatest));
    return std::nullopt;
  }
  return whole;
}

std::optional<double> ConfigSection::number(std::string_view key, NumberRange range) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::optional<double> real = value->as_number();
  if (!real || !(*real >= range.least && *real <= range.greatest)) {
    refuse(key, "\"auto\" or a number that is not negative");
    return std::nullopt;
  }
  return real;
}

std::optional<bool> ConfigSection::boolean(std::string_view key) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::optional<bool> flag = value->as_bool();
  if (!flag) {
    refuse(key, "true, false or \"auto\"");
  }
  return flag;
}

std::optional<std::string> ConfigSection::text(std::string_view key) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (value->as_string() == nullptr) {
    refuse(key, "a text");
    return std::nullopt;
  }
  return *value->as_string();
}

std::vector<std::string> ConfigSection::texts(std::string_view key) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return {};
  }
  if (value->as_string() != nullptr) {
    return {*value->as_string()};
  }
  std::vector<std::string> all;
  if (value->as_array() != nullptr) {
    for (const JsonValue& item : *value->as_array()) {
      if (item.as_string() != nullptr) {
        all.push_back(*item.as_string());
      }
    }
  }
  if (value->as_array() == nullptr || all.size() != value->as_array()->size()) {
    refuse(key, "a list of texts");
  }
  return all;
}

ConfigSection ConfigSection::section(std::string_view key) {
  const JsonValue* value = take(key);
  if (value != nullptr && value->as_object() == nullptr) {
    refuse(key, "an object");
    value = nullptr;
  }
  return {value, pointer_of(key), *findings_};
}

bool ConfigSection::switches_on(std::string_view key) {
  const JsonValue* value = take(key);
  if (value == nullptr) {
    return false;
  }
  const JsonValue* flag = value->as_object() != nullptr ? value->find("enabled") : value;
  return flag != nullptr && flag->as_bool().value_or(false);
}

void ConfigSection::accept(std::span<const std::string_view> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void ConfigSection::demand(std::string_view key, const JsonValue& neutral) {
  const JsonValue* value = take(key);
  if (value != nullptr && to_json(*value) != to_json(neutral)) {
    refuse(key, to_json(neutral) + ": anything else changes memory in a way not modelled");
  }
}

void ConfigSection::refuse(std::string_view key, std::string_view wanted, std::string_view fix) {
  const JsonValue* value = value_ == nullptr ? nullptr : value_->find(key);
  findings_->errors.push_back(Error::invalid_input(findings_->file, pointer_of(key),
                                                   value == nullptr ? "nothing" : describe(*value),
                                                   wanted, fix));
}

void ConfigSection::note(std::string_view text) {
  findings_->notes.emplace_back(text);
}

std::vector<std::string> ConfigSection::unknown() const {
  std::vector<std::string> keys;
  if (value_ != nullptr && value_->as_object() != nullptr) {
    for (const JsonMember& member : *value_->as_object()) {
      if (std::find(known_.begin(), known_.end(), member.key) == known_.end()) {
        keys.push_back(member.key);
      }
    }
  }
  return keys;
}

void ConfigSection::finish_section() {
  for (const std::string& key : unknown()) {
    const std::optional<std::string> closest = closest_word(key, known_);
    refuse(key, "a key that DeepSpeed knows here", closest ? "use '" + *closest + "'" : "");
  }
}

void ConfigSection::finish_root() {
  for (const std::string& key : unknown()) {
    const std::optional<std::string> closest = closest_word(key, known_);
    note(pointer_of(key) + ": DeepSpeed does not look at this key" +
         (closest ? "; it knows '" + *closest + "'" : ""));
  }
}

std::string ConfigSection::pointer_of(std::string_view key) const {
  return pointer_ + "/" + std::string(key);
}

}  // namespace headroom::ir::deepspeed
