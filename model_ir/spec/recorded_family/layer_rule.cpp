#include "model_ir/spec/recorded_family/layer_rule.h"

#include <algorithm>
#include <utility>

namespace headroom::ir {
namespace {

/// The value for the layer of a list with one for each.
std::optional<JsonValue> in_list(const std::optional<JsonValue>& list, const LayerPlace& layer) {
  const JsonValue::Array* const values = list ? list->as_array() : nullptr;
  if (values == nullptr || static_cast<std::int64_t>(values->size()) <= layer.index) {
    return std::nullopt;
  }
  const JsonValue& value = (*values)[static_cast<std::size_t>(layer.index)];
  return value.as_array() == nullptr ? value : JsonValue(to_json(value));
}

bool holds(const std::optional<JsonValue>& list, std::int64_t number) {
  const JsonValue::Array* const values = list ? list->as_array() : nullptr;
  return values != nullptr && std::ranges::any_of(*values, [number](const JsonValue& one) {
           return one.as_integer() == number;
         });
}

std::optional<JsonValue> feature_of(const JsonValue::Array& feature, const ConfigValueOf& value_of,
                                    const LayerPlace& layer) {
  const std::string* const kind = feature.empty() ? nullptr : feature[0].as_string();
  if (kind == nullptr) {
    return std::nullopt;
  }
  if (*kind == "first" || *kind == "last") {
    return JsonValue(layer.index == (*kind == "first" ? 0 : layer.count - 1));
  }
  const std::string* const key = feature.size() < 2 ? nullptr : feature[1].as_string();
  const std::optional<JsonValue> value =
      key != nullptr ? value_of(*key)
                     : (feature.size() < 2 ? std::nullopt : std::optional(feature[1]));
  if (*kind == "list") {
    return in_list(value, layer);
  }
  if (*kind == "in") {
    return JsonValue(holds(value, layer.index));
  }
  const std::optional<std::int64_t> number = value ? value->as_integer() : std::nullopt;
  if (!number) {
    return std::nullopt;
  }
  if (*kind == "below") {
    return JsonValue(layer.index < *number);
  }
  const std::optional<std::int64_t> plus =
      feature.size() == 3 ? feature[2].as_integer() : std::nullopt;
  constexpr std::int64_t kMostAdded = 4096;
  if (*kind != "multiple" || !plus || *plus > kMostAdded || *plus < -kMostAdded) {
    return std::nullopt;
  }
  return JsonValue(*number > 0 && (layer.index + *plus) % *number == 0);
}

}  // namespace

std::optional<std::string> layer_label(const JsonValue& by, const ConfigValueOf& value_of,
                                       const LayerPlace& layer) {
  JsonValue::Array label;
  const JsonValue::Array* const features = by.as_array();
  if (features == nullptr) {
    return std::nullopt;
  }
  for (const JsonValue& feature : *features) {
    std::optional<JsonValue> value = feature.as_array() == nullptr
                                         ? std::nullopt
                                         : feature_of(*feature.as_array(), value_of, layer);
    if (!value) {
      return std::nullopt;
    }
    label.push_back(std::move(*value));
  }
  return to_json(JsonValue(std::move(label)));
}

}  // namespace headroom::ir
