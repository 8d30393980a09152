#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// Why the predictions of certain rows have errors, as far as this is known.
struct Explanation {
  std::string source;
  std::vector<std::string> rows;  ///< Ids.
  std::vector<Metric> metrics;    ///< Empty: all.
  std::string why;
  /// Whether the recording explains the errors: the run had a condition that no plan states (a cold
  /// cache). Such errors say nothing about predictions.
  bool of_recording = false;
};

/// Whether `explanation` is about `score`.
[[nodiscard]] bool is_about(const Explanation& explanation, const Score& score);

/// Reads `configs/accuracy/explanations.json` (`configs/schema/explanations.schema.json`).
///
/// Errors:  those of `read_file`; kInvalidInput for anything that is not of that form.
[[nodiscard]] Result<std::vector<Explanation>> read_explanations(const std::string& path);

}  // namespace headroom::check
