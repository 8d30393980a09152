#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model_ir/json/json_value.h"
#include "model_ir/spec/recorded_family/expansion_sizes.h"
#include "model_ir/spec/recorded_family/layer_rule.h"

namespace headroom::ir {

/// A list of modules whose length is a dimension of the configuration.
struct LayerStack {
  std::string path;        ///< "model.layers"
  std::vector<int> kinds;  ///< The kind of each layer.
};

/// Replaces "{i}" in all texts of `value` by a layer's number.
void set_index(JsonValue& value, std::size_t index);

/// Writes the loops over layers of a family's code out, and numbers its values in the order in
/// which they are made. Serves for one code.
class CodeUnroller {
 public:
  /// `given` is the number of values that exist at the beginning.
  CodeUnroller(const std::vector<LayerStack>& stacks, ExpansionSizes& sizes, std::int64_t given);

  [[nodiscard]] JsonValue::Array run(JsonValue& code);

 private:
  using Numbers = std::unordered_map<std::int64_t, std::int64_t>;

  /// The values that code at one place can name.
  struct Names {
    Numbers& own;                             ///< Values of the layer, or of the code outside.
    const std::vector<std::int64_t>& before;  ///< "<0", "<1", ...: from the turn before.
  };

  void add(JsonValue instruction, const Names& names);
  void add_loop(const JsonValue::Array& loop);
  void let_go(const JsonValue& slots, const std::vector<std::int64_t>& before);
  [[nodiscard]] std::vector<std::int64_t> numbers_of(const JsonValue& values, const Names& names);
  void make_outputs(JsonValue::Array& instruction, Numbers& own);
  void make(JsonValue& number, Numbers& own);
  void refer(JsonValue& reference, const Names& names);
  void refer_all(JsonValue& references, const Names& names, std::size_t from = 0);
  void refer_extra(JsonValue& extra, const Names& names);
  [[nodiscard]] std::optional<std::vector<std::int64_t>> of_all_turns(const JsonValue& reference);

  const std::vector<LayerStack>& stacks_;
  ExpansionSizes& sizes_;
  std::int64_t next_;
  std::int64_t calls_ = 0;         ///< Calls of layers so far.
  std::int64_t values_named_ = 0;  ///< By "each" and "back".
  Numbers outer_;
  std::vector<std::vector<Numbers>> of_layers_;  ///< By stack and layer.
  /// The values that the turns of a loop handed on, by the number of the loop's output.
  std::unordered_map<std::int64_t, std::vector<std::int64_t>> turns_;
  JsonValue::Array code_;
};

}  // namespace headroom::ir
