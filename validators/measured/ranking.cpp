#include "validators/measured/ranking.h"

#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace headroom::check {
namespace {

constexpr std::size_t kFewest = 3;

using RankedRuns = std::tuple<std::string, std::string, Metric>;

int sign_of(double value) {
  return value > 0 ? 1 : value < 0 ? -1 : 0;
}

struct RankedRun {
  double predicted = 0;
  double measured = 0;
};

/// Kendall's tau-b; nothing if all predicted or all measured values are equal.
std::optional<double> tau_of(const std::vector<RankedRun>& runs) {
  double agreement = 0;
  double predicted = 0;  // Untied pairs.
  double measured = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int guess = sign_of(runs[i].predicted - runs[j].predicted);
      const int truth = sign_of(runs[i].measured - runs[j].measured);
      agreement += guess * truth;
      predicted += guess * guess;
      measured += truth * truth;
    }
  }
  const double pairs = std::sqrt(predicted * measured);
  return pairs > 0 ? std::optional(agreement / pairs) : std::nullopt;
}

/// The runs with the mean measured value of all runs with their prediction in its place.
std::vector<RankedRun> best_guesses(std::vector<RankedRun> runs) {
  std::map<double, std::pair<double, int>> sums;
  for (const RankedRun& run : runs) {
    auto& [sum, count] = sums[run.predicted];
    sum += run.measured;
    ++count;
  }
  for (RankedRun& run : runs) {
    const auto& [sum, count] = sums[run.predicted];
    run.predicted = sum / count;
  }
  return runs;
}

}  // namespace

std::vector<RankingLine> rank_agreement(const std::vector<Score>& scores) {
  std::map<RankedRuns, std::vector<RankedRun>> groups;
  for (const Score& score : scores) {
    if (is_time(score.metric) && !score.subject.empty()) {
      groups[{score.source, score.subject, score.metric}].push_back(
          {.predicted = score.predicted, .measured = score.measured});
    }
  }
  std::vector<RankingLine> lines;
  for (const auto& [group, runs] : groups) {
    const std::optional<double> tau = runs.size() >= kFewest ? tau_of(runs) : std::nullopt;
    if (tau) {
      lines.push_back({.source = std::get<0>(group),
                       .subject = std::get<1>(group),
                       .metric = std::get<2>(group),
                       .n = runs.size(),
                       .tau = *tau,
                       .attainable = tau_of(best_guesses(runs)).value_or(*tau)});
    }
  }
  return lines;
}

}  // namespace headroom::check
