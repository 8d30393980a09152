#include "model_ir/spec/recorded_family/config_values.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace headroom::ir {
namespace {

constexpr std::int64_t kMostListed = 4096;

const JsonValue* at_path(const JsonValue& root, std::string_view path) {
  const JsonValue* value = &root;
  while (value != nullptr && !path.empty()) {
    const std::size_t dot = path.find('.');
    value = value->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return value;
}

/// The two parts of a path around its last dot; the first is empty, or ends with the dot.
std::pair<std::string, std::string> split(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) {
    return {"", std::string(path)};
  }
  return {std::string(path.substr(0, dot + 1)), std::string(path.substr(dot + 1))};
}

/// A value of rope_parameters, which older files keep in rope_scaling, or beside it (rope_theta,
/// partial_rotary_factor); the type is then also called "type".
const JsonValue* rope_value(const JsonValue& config, const std::string& owner,
                            const std::string& name) {
  std::vector<std::string> places;
  for (const char* const part : {"rope_parameters.", "rope_scaling."}) {
    places.push_back(owner + part + name);
    if (name == "rope_type") {
      places.push_back(owner + part + "type");
    }
  }
  places.push_back(owner + name);
  for (const std::string& place : places) {
    const JsonValue* const found = at_path(config, place);
    if (found != nullptr && !found->is_null()) {
      return found;
    }
  }
  return nullptr;
}

/// Whether the part of a configuration has a window that it does not use
/// (configuration_qwen2.py: sliding_window if use_sliding_window else None).
bool is_switched_off(const JsonValue& config, std::string_view owner) {
  const JsonValue* const uses = at_path(config, std::string(owner) + "use_sliding_window");
  return uses != nullptr && uses->as_bool() == false;
}

}  // namespace

std::string ConfigValues::place_of(const std::string& owner, std::string_view name) const {
  constexpr std::string_view kText = "text_config.";
  if (owner != kText || config_.find("text_config") != nullptr) {
    return owner;
  }
  const auto has = [this](const char* part, std::string_view key) {
    const JsonValue* const found = keys_.find(part);
    return found != nullptr && found->find(key) != nullptr;
  };
  const bool is_own = has("fixed", name) || has("defaults", name);  // The whole model has it.
  return has("aliases", "hidden_size") && !is_own ? std::string() : owner;
}

const JsonValue* ConfigValues::given(std::string_view path) const {
  const auto [owner, name] = split(path);
  constexpr std::string_view kRope = "rope_parameters.";
  if (owner.ends_with(kRope)) {
    return rope_value(config_, place_of(owner.substr(0, owner.size() - kRope.size()), name), name);
  }
  const std::string place = place_of(owner, name);
  const JsonValue* const fixed = keys_.find("fixed");
  const JsonValue* const window = fixed == nullptr ? nullptr : fixed->find(path);
  if (name == "sliding_window" && window != nullptr && window->is_null() &&
      is_switched_off(config_, place)) {
    return window;
  }
  if (const JsonValue* const found = at_path(config_, place + name)) {
    return found;
  }
  const JsonValue* const aliases = keys_.find("aliases");
  const JsonValue::Object* const names = aliases == nullptr ? nullptr : aliases->as_object();
  if (names != nullptr) {
    for (const JsonMember& alias : *names) {
      const std::string* const target = alias.value.as_string();
      if (target != nullptr && *target == path) {
        return at_path(config_, alias.key);
      }
    }
  }
  return nullptr;
}

std::optional<JsonValue> ConfigValues::at(std::string_view path) const {
  const JsonValue* const own = given(path);
  const JsonValue* const defaults = keys_.find("defaults");
  const JsonValue* const rule = defaults == nullptr ? nullptr : defaults->find(path);
  const bool is_made = rule != nullptr && rule->as_object() != nullptr;
  if (own != nullptr && !(own->is_null() && is_made)) {
    return *own;
  }
  return rule == nullptr ? std::nullopt : made_once(path, *rule);
}

std::optional<JsonValue> ConfigValues::made_once(std::string_view path,
                                                 const JsonValue& rule) const {
  const auto known = made_.find(path);
  if (known != made_.end()) {
    return known->second;
  }
  made_.emplace(path, std::nullopt);
  std::optional<JsonValue> value = made(rule);
  made_.find(path)->second = value;
  return value;
}

std::optional<JsonValue> ConfigValues::made_by_default(std::string_view path) const {
  const JsonValue* const defaults = keys_.find("defaults");
  const JsonValue* const rule = defaults == nullptr ? nullptr : defaults->find(path);
  return rule == nullptr || rule->as_object() == nullptr ? std::nullopt : made_once(path, *rule);
}

std::optional<std::int64_t> ConfigValues::number(std::string_view path) const {
  const std::optional<JsonValue> value = at(path);
  if (value && given(path) == nullptr) {
    const JsonValue* const defaults = keys_.find("defaults");
    const JsonValue* const rule = defaults == nullptr ? nullptr : defaults->find(path);
    if (rule != nullptr && rule->as_object() == nullptr) {
      defaulted_.emplace(path);
    }
  }
  return value ? value->as_integer() : std::nullopt;
}

std::optional<JsonValue> ConfigValues::made(const JsonValue& rule) const {
  if (rule.as_object() == nullptr) {
    return rule;
  }
  if (const JsonValue* const expression = rule.find("expression")) {
    const std::string* const text = expression->as_string();
    const std::optional<JsonValue> size =
        text == nullptr ? std::nullopt : size_of(*text, dimensions());
    return size;
  }
  return list_by_rule(rule);
}

bool ConfigValues::has_keys_of(const JsonValue& features) const {
  return features.as_array() != nullptr &&
         std::ranges::all_of(*features.as_array(), [this](const JsonValue& one) {
           const JsonValue::Array* const feature = one.as_array();
           const std::string* const key =
               feature == nullptr || feature->size() < 2 ? nullptr : (*feature)[1].as_string();
           const std::optional<JsonValue> value = key == nullptr ? std::nullopt : at(*key);
           return key == nullptr || (value && !value->is_null());
         });
}

std::optional<JsonValue> ConfigValues::list_by_rule(const JsonValue& rule) const {
  const JsonValue* const by = rule.find("by");
  const JsonValue* const values = rule.find("values");
  const JsonValue* const key = rule.find("count");
  if (by == nullptr || values == nullptr || values->as_array() == nullptr || key == nullptr ||
      key->as_string() == nullptr) {
    return std::nullopt;
  }
  if (const JsonValue* const usual = rule.find("otherwise");
      usual != nullptr && !has_keys_of(*by)) {
    return made(*usual);
  }
  const std::optional<std::int64_t> count = number(*key->as_string());
  if (!count || *count < 0 || *count > kMostListed) {
    return std::nullopt;
  }
  JsonValue::Array list;
  for (std::int64_t layer = 0; layer < *count; ++layer) {
    const std::optional<std::string> label =
        layer_label(*by, lookup(), {.index = layer, .count = *count});
    const JsonValue* found = nullptr;
    for (const JsonValue& one : *values->as_array()) {
      const JsonValue::Array* const pair = one.as_array();
      if (label && pair != nullptr && pair->size() == 2 && to_json((*pair)[0]) == *label) {
        found = &(*pair)[1];
      }
    }
    if (found == nullptr) {
      return std::nullopt;
    }
    list.push_back(*found);
  }
  return JsonValue(std::move(list));
}

}  // namespace headroom::ir
