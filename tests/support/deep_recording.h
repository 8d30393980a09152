#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/json/json_value.h"

namespace headroom::test {

/// Repeats the first layer of tests/golden/recordings/llama.json, whose two layers are alike.
class DeepRecording {
 public:
  DeepRecording(std::string_view text, std::int64_t layers)
      : document_(ir::parse_json(text, "llama.json").value()), count_(layers) {
    member(member(document_, "config"), "num_hidden_layers") = Value(layers);
    repeat_named("modules");
    repeat_named("parameters");
    for (ir::JsonValue& variant : *member(document_, "variants").as_array()) {
      repeat_calls(variant);
      if (variant.find("load") != nullptr) {
        repeat_constructors(member(variant, "load"));
      }
    }
  }

  [[nodiscard]] std::string text() const { return ir::to_json(document_); }

 private:
  using Value = ir::JsonValue;
  using List = ir::JsonValue::Array;

  static Value& member(Value& object, std::string_view key) {
    for (ir::JsonMember& each : *object.as_object()) {
      if (each.key == key) {
        return each.value;
      }
    }
    std::abort();
  }

  static std::optional<std::int64_t> layer_of(const Value& value) {
    const std::string text = ir::to_json(value);
    return text.find("layers.0") != std::string::npos   ? std::optional<std::int64_t>(0)
           : text.find("layers.1") != std::string::npos ? std::optional<std::int64_t>(1)
                                                        : std::nullopt;
  }

  static Value in_layer(const Value& value, std::int64_t layer) {
    std::string text = ir::to_json(value);
    const std::string name = "layers." + std::to_string(layer);
    constexpr std::string_view kFirst = "layers.0";
    for (std::size_t at = 0; (at = text.find(kFirst, at)) != std::string::npos; at += name.size()) {
      text.replace(at, kFirst.size(), name);
    }
    return ir::parse_json(text, "layer").value();
  }

  void repeat_named(std::string_view key) {
    List& list = *member(document_, key).as_array();
    List all, block;
    for (const Value& item : list) {
      const std::optional<std::int64_t> layer = layer_of((*item.as_array())[0]);
      if (!layer) {
        all.push_back(item);
      } else if (*layer == 0) {
        block.push_back(item);
      } else if (!block.empty()) {
        add_block(std::exchange(block, {}), all);
      }
    }
    list = std::move(all);
  }

  void add_block(const List& block, List& all) const {
    for (std::int64_t layer = 0; layer < count_; ++layer) {
      for (const Value& item : block) {
        all.push_back(in_layer(item, layer));
      }
    }
  }

  /// Applies `rename` to every number of a value among `items`.
  template <typename Rename>
  static void rename_values(List& items, std::size_t first, const Rename& rename) {
    for (std::size_t i = first; i < items.size(); ++i) {
      if (const std::optional<std::int64_t> value = items[i].as_integer()) {
        items[i] = Value(rename(*value));
      }
    }
  }

  template <typename Rename>
  static void rename_instruction(Value& instruction, const Rename& rename) {
    List& fields = *instruction.as_array();
    const std::string kind = *fields[0].as_string();
    if (kind == "drop" || kind == "result") {
      rename_values(fields, 1, rename);
    } else if (kind == "linear") {
      rename_values(fields, 2, rename);
      rename_first(fields[3], rename);
    } else if (kind == "op") {
      rename_values(*fields[2].as_array(), 0, rename);
      for (Value& output : *fields[3].as_array()) {
        rename_first(output, rename);
      }
    }
  }

  template <typename Rename>
  static void rename_first(Value& output, const Rename& rename) {
    Value& first = (*output.as_array())[0];
    if (const std::optional<std::int64_t> value = first.as_integer()) {
      first = Value(rename(*value));
    }
  }

  /// "layers" and the calls of them in "forward".
  void repeat_calls(Value& variant) {
    List layers;
    const List& modules = *document_.find("modules")->as_array();
    for (std::int64_t layer = 0; layer < count_; ++layer) {
      const std::string path = "model.layers." + std::to_string(layer);
      std::int64_t module = 0;
      while (*(*modules[static_cast<std::size_t>(module)].as_array())[0].as_string() != path) {
        ++module;
      }
      layers.emplace_back(
          Value::Object{{"module", Value(module)}, {"body", Value(std::int64_t{0})}});
    }
    member(variant, "layers") = Value(std::move(layers));
    List forward;
    std::int64_t last = INT64_MAX;  // The output of the last layer that was recorded.
    for (Value& instruction : *member(variant, "forward").as_array()) {
      const List& fields = *instruction.as_array();
      if (*fields[0].as_string() == "layer") {
        last = *(*fields[3].as_array())[0].as_integer();
        if (*fields[1].as_integer() == 0) {
          add_calls(fields, forward);
        }
        continue;
      }
      const bool between = last != INT64_MAX && *fields[0].as_string() == "drop" &&
                           fields.size() == 2 && *fields[1].as_integer() == last - 1;
      if (!between) {  // The drop after the second layer is among those of `add_calls`.
        rename_instruction(instruction, [&](std::int64_t value) {
          return value >= last ? value + count_ - 2 : value;
        });
        forward.push_back(instruction);
      }
    }
    member(variant, "forward") = Value(std::move(forward));
  }

  void add_calls(const List& first, List& forward) const {
    const std::int64_t output = *(*first[3].as_array())[0].as_integer();
    for (std::int64_t layer = 0; layer < count_; ++layer) {
      List call = first;
      call[1] = Value(layer);
      if (layer > 0) {
        (*call[2].as_array())[0] = Value(output + layer - 1);
      }
      call[3] = Value(List{Value(output + layer)});
      forward.emplace_back(std::move(call));
      if (layer > 0) {
        forward.emplace_back(List{Value("drop"), Value(output + layer - 1)});
      }
    }
  }

  /// Runs of instructions that concern the first layer.
  void repeat_constructors(Value& load) {
    std::map<std::int64_t, std::int64_t> owners;  // By value: its layer; absent: none.
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> numbers;
    std::int64_t next = 0;
    List all, block;
    const auto add = [&](const Value& instruction, std::int64_t layer) {
      Value copy = layer < 0 ? instruction : in_layer(instruction, layer);
      rename_instruction(copy, [&](std::int64_t value) {
        const auto known = numbers.find({value, layer});
        const auto outer = numbers.find({value, -1});
        if (known != numbers.end()) {
          return known->second;
        }
        return outer != numbers.end() ? outer->second : (numbers[{value, layer}] = next++);
      });
      all.push_back(std::move(copy));
    };
    const auto flush = [&] {
      for (std::int64_t layer = 0; layer < count_; ++layer) {
        for (const Value& instruction : block) {
          add(instruction, layer);
        }
      }
      block.clear();
    };
    for (const Value& instruction : *load.as_array()) {
      const List& fields = *instruction.as_array();
      std::optional<std::int64_t> layer = layer_of(instruction);
      if (*fields[0].as_string() == "op") {
        for (const Value& input : *fields[2].as_array()) {
          const auto owner = owners.find(input.as_integer().value_or(-1));
          layer = owner != owners.end() ? owner->second : layer;
        }
        for (const Value& output : *fields[3].as_array()) {
          const std::optional<std::int64_t> value = (*output.as_array())[0].as_integer();
          if (value && layer) {
            owners[*value] = *layer;
          }
        }
      }
      if (layer == 0) {
        block.push_back(instruction);
      } else {
        flush();
      }
      if (!layer) {
        add(instruction, -1);
      }
    }
    load = Value(std::move(all));
  }

  ir::JsonValue document_;
  std::int64_t count_;
};

}  // namespace headroom::test
