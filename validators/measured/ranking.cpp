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

/// Kendall's tau-b; nothing if all predicted or all measured values are equal.
std::optional<double> tau_of(const std::vector<const Score*>& scores) {
  double agreement = 0;
  double predicted = 0;  // Untied pairs.
  double measured = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int guess = sign_of(scores[i]->predicted - scores[j]->predicted);
      const int truth = sign_of(scores[i]->measured - scores[j]->measured);
      agreement += guess * truth;
      predicted += guess * guess;
      measured += truth * truth;
    }
  }
  const double pairs = std::sqrt(predicted * measured);
  return pairs > 0 ? std::optional(agreement / pairs) : std::nullopt;
}

}  // namespace

std::vector<RankingLine> rank_agreement(const std::vector<Score>& scores) {
  std::map<RankedRuns, std::vector<const Score*>> groups;
  for (const Score& score : scores) {
    if (is_time(score.metric) && !score.subject.empty()) {
      groups[{score.source, score.subject, score.metric}].push_back(&score);
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
                       .tau = *tau});
    }
  }
  return lines;
}

}  // namespace headroom::check
