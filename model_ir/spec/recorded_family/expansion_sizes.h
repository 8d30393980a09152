#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "model_ir/base/error.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/recorded_family/config_values.h"

namespace headroom::ir {

/// Sizes of a family's recording as those of one configuration. The first fault is kept; what is
/// written after it has no meaning.
class ExpansionSizes {
 public:
  /// `file` names the recording of the family, `config_file` the configuration. `values` must
  /// outlive this.
  ExpansionSizes(const ConfigValues& values, std::string_view file, std::string_view config_file)
      : values_(values), file_(file), config_file_(config_file) {}

  [[nodiscard]] JsonValue size(const JsonValue& size);
  [[nodiscard]] JsonValue shape(const JsonValue& shape);
  /// The instruction with the sizes of the configuration.
  [[nodiscard]] JsonValue instruction(JsonValue instruction);
  /// Changes code without loops over layers.
  void set_code(JsonValue& code);

  /// Notes that the recording is `got`.
  void refuse(std::string_view got);
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }

 private:
  [[nodiscard]] JsonValue from_text(const std::string& text);
  void set_instruction(JsonValue& instruction);
  void set_shape(JsonValue& shape);
  void set_outputs(JsonValue& outputs);
  void set_output(JsonValue& output);
  void set_inside(JsonValue& inside);
  void set_scalars(JsonValue& scalars);

  const ConfigValues& values_;
  std::string file_;
  std::string config_file_;
  std::unordered_map<std::string, JsonValue> known_;
  std::optional<Error> fault_;
};

}  // namespace headroom::ir
