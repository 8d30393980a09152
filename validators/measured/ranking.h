#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "validators/measured/score.h"

namespace headroom::check {

/// Whether the predictions order the runs of one model on one machine as the measurements do.
struct RankingLine {
  std::string source;
  std::string subject;  ///< `Score::subject`.
  Metric metric = Metric::kStepTime;
  std::size_t n = 0;
  double tau = 0;  ///< Kendall's tau-b: 1 if all pairs agree, -1 if all are reversed.
  /// What tau would be if every prediction were the mean of the runs that have it. Runs of one
  /// configuration that were measured several times, such as with several releases of a framework,
  /// have one prediction, so that no model of configurations reaches much more.
  double attainable = 0;
};

/// One line for each source, subject and metric of time that has at least three runs, sorted.
///
/// Source:  Kendall 1945, "The treatment of ties in ranking problems", Biometrika 33 (tau-b).
[[nodiscard]] std::vector<RankingLine> rank_agreement(const std::vector<Score>& scores);

}  // namespace headroom::check
