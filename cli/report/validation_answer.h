#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "costmodel/estimate.h"
#include "model_ir/plan/parallel_plan.h"
#include "validators/confirmation/comparison.h"
#include "validators/dryrun/verdict.h"
#include "validators/torch/assumed_versions.h"

namespace headroom::cli {

/// The predicted or the measured needs of a run.
struct ValidatedSide {
  std::string verdict;  ///< "fits", "tight", "does not fit", "unknown".
  Bytes margin;         ///< Negative: missing.
  check::PhasePeaks peaks;
  std::optional<double> step_seconds;
  /// The bytes that the request that failed lacked; nothing if none failed. `margin` of a
  /// prediction is what the whole run lacks, which a run that has failed does not tell.
  std::optional<Bytes> missing_at_failure{};
};

/// The bytes that a request for `failure.requested` bytes lacks if the allocator may take
/// `capacity`.
[[nodiscard]] Bytes missing_at(const cost::OutOfMemory& failure, Bytes capacity);

/// The executor's figures of a run, besides those of `ValidatedSide`.
struct ExecutedRun {
  std::vector<double> losses;  ///< One for each step; empty if another stage has them.
  std::optional<double> tokens_per_second{};
  std::optional<double> mfu{};  ///< Share of the GPU's peak; none if its peak is not known.
  Bytes predicted_driver;       ///< Bytes of the predicted segments.
  Bytes measured_driver;        ///< Bytes by which the driver's free memory shrank.
};

/// All data of the answer of `validate PLAN.json`: a prediction beside a measurement, whoever made
/// it.
struct ValidationAnswer {
  std::string plan_file;
  std::string model;
  std::string setting;  ///< The plan in one line.
  std::string with;     ///< "dryrun", "torch".
  std::string device;   ///< GPU of the prediction: a name of the catalogue.
  std::string used;     ///< GPU of the measurement, as its driver names it.
  std::int64_t gpus = 1;
  std::int64_t rank = 0;
  double tolerance = 0;  ///< Largest relative error of either peak.
  ValidatedSide predicted;
  ValidatedSide measured;
  std::vector<check::PhaseComparison> phases;
  std::vector<check::PackageVersion> versions;
  std::string failure;               ///< The error that ended the measured program; empty: none.
  std::string snapshot;              ///< File that was written; empty: none.
  std::optional<ExecutedRun> run{};  ///< None unless the executor measured.
  std::vector<std::string> notes;

  /// Whether the measurement says anything.
  [[nodiscard]] bool is_measured() const { return measured.verdict != "unknown"; }
  /// Whether the run came to its end on both sides, so that peaks can be compared.
  [[nodiscard]] bool both_fit() const;
  /// Both peaks are within the tolerance, or both sides say that the run does not fit.
  [[nodiscard]] bool agrees() const;
  /// The larger relative error of the two peaks.
  [[nodiscard]] double error() const;
};

/// The answer as one JSON document (`configs/schema/validation.schema.json`).
[[nodiscard]] std::string validation_json(const ValidationAnswer& answer);
/// The answer on one screen.
[[nodiscard]] std::string validation_text(const ValidationAnswer& answer, const Terminal& terminal);

}  // namespace headroom::cli
