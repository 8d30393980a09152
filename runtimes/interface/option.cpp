#include "runtimes/interface/option.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace headroom::ir {

namespace option_detail {

JsonValue json_of(const std::vector<std::string>& names) {
  JsonValue::Array items;
  for (const std::string& name : names) {
    items.emplace_back(name);
  }
  return JsonValue{std::move(items)};
}

std::optional<std::vector<std::string>> names_in(const JsonValue& value) {
  if (value.as_array() == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const JsonValue& item : *value.as_array()) {
    if (item.as_string() == nullptr) {
      return std::nullopt;
    }
    names.push_back(*item.as_string());
  }
  return names;
}

}  // namespace option_detail

namespace {

bool is_among(const std::vector<std::string>& words, const std::string& text) {
  return std::ranges::find(words, text) != words.end();
}

/// The words in `value` that the row does not accept.
std::vector<std::string> unknown_words(const OptionField& field, const JsonValue& value) {
  std::vector<std::string> unknown;
  if (field.words == nullptr) {
    return unknown;
  }
  const std::vector<std::string> known = field.words();
  std::vector<std::string> given =
      option_detail::names_in(value).value_or(std::vector<std::string>{});
  if (value.as_string() != nullptr) {
    given.push_back(*value.as_string());
  } else if (const std::optional<std::int64_t> whole = value.as_integer()) {
    given.push_back(std::to_string(*whole));
  }
  for (const std::string& word : given) {
    if (!is_among(known, word)) {
      unknown.push_back(word);
    }
  }
  return unknown;
}

std::string bound_text(double bound) {
  return to_json(JsonValue{bound});
}

}  // namespace

bool same_options(std::span<const OptionField> fields, const ParallelPlan& one,
                  const ParallelPlan& other) {
  return std::ranges::all_of(fields,
                             [&](const OptionField& field) { return field.same(one, other); });
}

bool accepts(const OptionField& field, const JsonValue& value) {
  if (value.is_null()) {
    return field.optional;
  }
  if (!unknown_words(field, value).empty()) {
    return false;
  }
  switch (field.kind) {
    case OptionKind::kSwitch:
      return value.as_bool().has_value();
    case OptionKind::kWhole:
    case OptionKind::kBytes: {
      const std::optional<std::int64_t> whole = value.as_integer();
      return whole && *whole >= field.wholes.least && *whole <= field.wholes.greatest;
    }
    case OptionKind::kReal: {
      const std::optional<double> real = value.as_number();
      return real && *real >= field.reals.least && *real <= field.reals.greatest;
    }
    case OptionKind::kWord:
    case OptionKind::kText:
      return value.as_string() != nullptr;
    case OptionKind::kNames:
      return option_detail::names_in(value).has_value();
  }
  return false;
}

std::string wanted_of(const OptionField& field) {
  if (!field.form.empty()) {
    return std::string(field.form);
  }
  if (field.words != nullptr) {
    return (field.kind == OptionKind::kNames ? "names from " : "one of ") + join(field.words());
  }
  switch (field.kind) {
    case OptionKind::kSwitch:
      return "yes or no";
    case OptionKind::kWhole:
      return field.wholes.greatest == std::numeric_limits<std::int64_t>::max()
                 ? "a whole number from " + std::to_string(field.wholes.least)
                 : "a whole number from " + std::to_string(field.wholes.least) + " to " +
                       std::to_string(field.wholes.greatest);
    case OptionKind::kReal:
      return "a number from " + bound_text(field.reals.least) + " to " +
             bound_text(field.reals.greatest);
    case OptionKind::kBytes:
      return "a size with its unit, such as 25MiB";
    case OptionKind::kNames:
      return "names with + between";
    case OptionKind::kWord:
    case OptionKind::kText:
      break;
  }
  return "a text";
}

std::string suggestion_of(const OptionField& field, const JsonValue& value) {
  const std::vector<std::string> unknown = unknown_words(field, value);
  return unknown.empty() ? std::string() : suggestion(unknown.front(), field.words());
}

const OptionField* find_field(std::span<const OptionField> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &OptionField::name);
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace headroom::ir
