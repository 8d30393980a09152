#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model_ir/base/check.h"
#include "model_ir/base/file.h"
#include "model_ir/graph/decoder.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/hf_config.h"

namespace headroom::test {

/// A small model, and what transformers makes of it.
struct SmallModel {
  std::string name;
  ir::ModelSpec spec;
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> parameters;  ///< Name and shape.
  /// In the order of a forward pass: the position of a module's first parameter, or "dropout p".
  std::vector<ir::JsonValue> calls;
};

inline std::vector<std::int64_t> integers_of(const ir::JsonValue& array) {
  std::vector<std::int64_t> numbers;
  for (const ir::JsonValue& value : *array.as_array()) {
    numbers.push_back(value.as_integer().value());
  }
  return numbers;
}

inline std::vector<SmallModel> read_small_models() {
  const std::string path =
      std::string(HEADROOM_SOURCE_DIR) + "/tests/golden/parameters/transformers-5.17.json";
  const ir::JsonValue document = ir::parse_json(read_file(path).value(), path).value();
  std::vector<SmallModel> models;
  for (const ir::JsonMember& member : *document.find("models")->as_object()) {
    SmallModel model{.name = member.key, .spec = {}, .parameters = {}, .calls = {}};
    const std::string config = ir::to_json(*member.value.find("config"));
    model.spec = ir::parse_hf_config(config, member.key).value();
    for (const ir::JsonMember& parameter : *member.value.find("parameters")->as_object()) {
      model.parameters.emplace_back(parameter.key, integers_of(parameter.value));
    }
    model.calls = *member.value.find("calls")->as_array();
    models.push_back(std::move(model));
  }
  return models;
}

/// Small models of every family and of its variants, from
/// tests/golden/parameters/transformers-5.17.json.
inline const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> models = read_small_models();
  return models;
}

inline const SmallModel& small_model(const std::string& name) {
  for (const SmallModel& model : small_models()) {
    if (model.name == name) {
      return model;
    }
  }
  throw InternalError("no small model named " + name);
}

/// Two sequences of 5 tokens.
inline constexpr ir::BatchShape kSmallShape{.batch = 2, .sequence = 5};

inline ir::Graph small_graph(const std::string& name) {
  return ir::build_graph(small_model(name).spec, kSmallShape);
}

}  // namespace headroom::test
