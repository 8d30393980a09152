#pragma once

#include "model_ir/spec/recording/value_reader.h"

namespace headroom::ir {

/// Reads the instructions "op" and "node".
class OperatorReader : public ValueReader {
 public:
  using ValueReader::ValueReader;

  [[nodiscard]] bool read_operator(const JsonValue& value, const JsonValue::Array& fields,
                                   Instruction& instruction);
  [[nodiscard]] bool read_output(const JsonValue& value, std::size_t inputs,
                                 RecordedOutput& output);

 private:
  /// Attention is run as a whole: its inputs are values, its output has a storage of its own.
  [[nodiscard]] static bool is_dropout(const Instruction& instruction);
  [[nodiscard]] static bool is_table_gradient(const Instruction& instruction);
  [[nodiscard]] static bool is_attention(const Instruction& instruction);
  [[nodiscard]] static bool is_kept(const Instruction& instruction);
  /// The output of a node, [value], which exists already.
  [[nodiscard]] bool read_existing(const JsonValue& value, RecordedOutput& output);
  [[nodiscard]] bool read_how(const JsonValue& value, std::size_t inputs, RecordedOutput& output);
  [[nodiscard]] bool read_extra(const JsonValue& extra, Instruction& instruction);
  static void read_scalars(const JsonValue& scalars, Instruction& instruction);
  [[nodiscard]] bool read_saves(const JsonValue& saves, Instruction& instruction);
  /// A template fits its operator: edges lead to inputs, gradients and saved tensors exist.
  [[nodiscard]] bool check_gradient(const JsonValue& value, const Instruction& instruction);
  [[nodiscard]] bool read_inside(const JsonValue& inside, Instruction& instruction);
};

}  // namespace headroom::ir
