#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model_ir/json/json_reader.h"

namespace headroom::cost {

/// Fields of a catalogue file, where every figure names its source:
///
///     "power_watts": {"value": 400, "source": "datasheet"}
///     "sources": {"datasheet": "NVIDIA A100 datasheet, June 2021"}
///
/// A figure without a source, and one whose source is not described, is a fault of the file; it is
/// noted in the reader like any other.
class SourcedFields {
 public:
  explicit SourcedFields(ir::JsonObject root);

  [[nodiscard]] std::int64_t integer(std::string_view key, ir::IntegerRange range) const;
  [[nodiscard]] std::optional<std::int64_t> optional_integer(std::string_view key,
                                                             ir::IntegerRange range) const;
  [[nodiscard]] double number(std::string_view key, ir::NumberRange range) const;
  [[nodiscard]] std::optional<double> optional_number(std::string_view key,
                                                      ir::NumberRange range) const;
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] bool boolean(std::string_view key) const;

  /// The description behind the source that `key` names; empty if there is none.
  [[nodiscard]] std::string source_of(std::string_view key) const;

 private:
  [[nodiscard]] std::optional<ir::JsonObject> figure(std::string_view key) const;
  [[nodiscard]] std::string described_source(const ir::JsonObject& figure) const;

  ir::JsonObject root_;
  ir::JsonObject sources_;
};

}  // namespace headroom::cost
