#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "validators/measured/row.h"
#include "validators/measured/row_plan.h"

namespace headroom::check {

/// One comparison, of one metric in one phase of one row.
struct Score {
  std::string id;
  std::string source;
  std::string runtime;
  std::string parallel;
  std::string phase;
  bool on_gpu = false;  ///< See `MeasuredRow::on_gpu`.
  Metric metric = Metric::kAllocatedAfter;
  double predicted = 0;
  double measured = 0;
  double error = 0;       ///< Signed; see `error_of`.
  std::string subject{};  ///< Model and machine of a published row; else empty.
};

/// Something that was not compared, and why.
struct Skipped {
  std::string id;
  std::string source;
  std::string runtime;
  std::optional<std::string> phase;  ///< none: the whole row.
  std::optional<Metric> metric;      ///< none: every metric of the phase.
  std::string reason;
};

/// The results of a set of rows, in the order of the rows and of their phases.
struct Scoring {
  std::vector<Score> scores;
  std::vector<Skipped> skipped;
};

/// (predicted - measured) / measured. If measured is 0: 0 if predicted is 0, else 1. For retries,
/// the difference; for fits, 0 if right and 1 if wrong.
[[nodiscard]] inline double error_of(Metric metric, double predicted, double measured) {
  if (metric == Metric::kRetries) {
    return predicted - measured;
  }
  if (metric == Metric::kFits) {
    return predicted == measured ? 0 : 1;
  }
  if (measured == 0) {
    return predicted == 0 ? 0 : 1;
  }
  return (predicted - measured) / measured;
}

/// Writes the scores and skips of one row, with its labels. The row must outlive it.
class RowScorer {
 public:
  RowScorer(const MeasuredRow& row, const RowLabels& labels) : row_(row), labels_(labels) {}

  void score(std::string_view phase, Metric metric, double predicted, double measured) {
    out_.scores.push_back({.id = row_.id,
                           .source = row_.source,
                           .runtime = labels_.runtime,
                           .parallel = labels_.parallel,
                           .phase = std::string(phase),
                           .on_gpu = row_.on_gpu,
                           .metric = metric,
                           .predicted = predicted,
                           .measured = measured,
                           .error = error_of(metric, predicted, measured),
                           .subject = subject_of(row_)});
  }

  void skip(std::string reason, std::optional<std::string> phase = std::nullopt,
            std::optional<Metric> metric = std::nullopt) {
    out_.skipped.push_back({.id = row_.id,
                            .source = row_.source,
                            .runtime = labels_.runtime,
                            .phase = std::move(phase),
                            .metric = metric,
                            .reason = std::move(reason)});
  }

  [[nodiscard]] Scoring take() { return std::move(out_); }

 private:
  const MeasuredRow& row_;
  const RowLabels& labels_;
  Scoring out_;
};

}  // namespace headroom::check
