#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "validators/measured/row.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// Writes scores and skips of one row, which must outlive it, with its labels.
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
