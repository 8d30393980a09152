#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/dryrun_prediction.h"
#include "cli/terminal.h"
#include "validators/dryrun/launcher.h"
#include "validators/dryrun/verdict.h"

namespace headroom::cli {

/// All data of the answer of `dryrun`.
struct DryRunAnswer {
  check::DryRunRequest request;
  check::DryRunEnd end;     ///< With at least one report.
  std::size_t binding = 0;  ///< Index of the report that decides.
  check::DryRunJudgement judged;
  std::optional<DryRunPrediction> prediction;
  std::string unpredicted;  ///< Why there is no prediction, in one phrase.
  std::string next;         ///< The command to run next; empty: none.
  std::vector<std::string> notes;

  [[nodiscard]] const check::DryRunReport& report() const { return end.reports[binding]; }
};

/// Sums of the live blocks by category.
[[nodiscard]] std::vector<Bytes> bytes_by_category(const std::vector<check::DryRunBlocks>& live);

/// What was live when it mattered: at the out-of-memory error that ended the program, otherwise at
/// the peak.
[[nodiscard]] const std::vector<check::DryRunBlocks>& live_of(const DryRunAnswer& answer);

/// How the program ended, in words: "stopped after 3 steps", "ended with exit code 1".
[[nodiscard]] std::string end_text(const DryRunAnswer& answer);

/// Predicted and measured figures side by side, or why nothing was predicted.
[[nodiscard]] std::string dryrun_prediction_text(const DryRunAnswer& answer,
                                                 const Terminal& terminal);

/// The answer as one JSON document (`configs/schema/dryrun.schema.json`).
[[nodiscard]] std::string dryrun_json(const DryRunAnswer& answer);
/// The answer on one screen.
[[nodiscard]] std::string dryrun_text(const DryRunAnswer& answer, const Terminal& terminal);

}  // namespace headroom::cli
