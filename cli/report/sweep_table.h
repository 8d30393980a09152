#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/sweep_file.h"
#include "cli/terminal.h"
#include "model_ir/json/json_value.h"

namespace headroom::cli {

/// The answers of a sweep for people: a line of figures for each combination, and below it the plan
/// or the reason why there is none. Lines can be shown one by one, since their columns are those of
/// all combinations.
class SweepTable {
 public:
  SweepTable(const std::vector<SweepItem>& items, const Terminal& terminal);

  [[nodiscard]] std::string header() const;
  /// The lines of `answer`, an object with some of the fields of `sweep_header`. `reason` is shown
  /// if it has no plan.
  [[nodiscard]] std::string lines(const ir::JsonValue& answer, const std::string& reason) const;

 private:
  [[nodiscard]] std::string line(const std::vector<std::string>& cells) const;

  Terminal terminal_;
  std::vector<std::size_t> widths_;
};

}  // namespace headroom::cli
