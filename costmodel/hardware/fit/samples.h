#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "costmodel/hardware/collective_time.h"
#include "costmodel/hardware/fit/table.h"
#include "costmodel/hardware/kernel_time.h"

namespace headroom::cost::fit {

/// One measurement of a kernel or a collective.
template <typename Shape>
struct Sample {
  Shape shape;
  Seconds measured;
  bool held_out = false;  ///< Not used by the fit, only to evaluate it.
  double weight = 1;
};
template <typename Shape>
using Samples = std::vector<Sample<Shape>>;

/// Samples by device, as the catalogue names it.
template <typename Shape>
using SamplesOf = std::map<std::string, Samples<Shape>>;

/// Errors:  those of `read_table`.
[[nodiscard]] Result<SamplesOf<ir::GemmShape>> read_gemms(const std::string& folder);
[[nodiscard]] Result<SamplesOf<ir::AttentionShape>> read_attention(const std::string& folder);
[[nodiscard]] Result<SamplesOf<ir::CollectiveShape>> read_collectives(const std::string& folder);

/// Products and attention of training frameworks, measured as shares of a peak.
[[nodiscard]] Result<SamplesOf<ir::GemmShape>> read_training_gemms(const std::string& folder);
[[nodiscard]] Result<SamplesOf<ir::AttentionShape>> read_training_attention(
    const std::string& folder);

/// Distance of predictions from measurements: |predicted / measured - 1|.
struct Residuals {
  std::vector<double> fitted;
  std::vector<double> held_out;
};
[[nodiscard]] double quantile(std::vector<double> values, double share);

/// "| LABEL | count | median | p90 |" for the held-out samples and for the fitted ones.
[[nodiscard]] std::string table_row(const std::string& label, const Residuals& residuals);

/// The weighted mean of |log(predicted / measured)| over the samples that are not held out.
template <typename Shape, typename Predict>
double misfit(const Samples<Shape>& samples, const Predict& predict) {
  double sum = 0;
  double weight = 0;
  for (const Sample<Shape>& sample : samples) {
    if (!sample.held_out) {
      sum += sample.weight * std::abs(std::log(predict(sample.shape) / sample.measured));
      weight += sample.weight;
    }
  }
  return sum / weight;
}

/// Residuals of all samples.
template <typename Shape, typename Predict>
Residuals residuals_of(const Samples<Shape>& samples, const Predict& predict) {
  Residuals residuals;
  for (const Sample<Shape>& sample : samples) {
    const double error = std::abs(predict(sample.shape) / sample.measured - 1);
    (sample.held_out ? residuals.held_out : residuals.fitted).push_back(error);
  }
  return residuals;
}

}  // namespace headroom::cost::fit
