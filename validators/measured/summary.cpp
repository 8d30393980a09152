#include "validators/measured/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace headroom::check {
namespace {

using Group = std::tuple<std::string, std::string, std::string, Metric>;

double share(std::size_t part, std::size_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// `errors` must be sorted and not empty.
SummaryLine line_of(const Group& group, const std::vector<double>& errors) {
  const std::size_t n = errors.size();
  const auto at_most = [&errors](double bound) {
    return static_cast<std::size_t>(std::upper_bound(errors.begin(), errors.end(), bound) -
                                    errors.begin());
  };
  SummaryLine line{.source = std::get<0>(group),
                   .runtime = std::get<1>(group),
                   .parallel = std::get<2>(group),
                   .metric = std::get<3>(group),
                   .n = n,
                   .exact_share = share(at_most(0), n),
                   .median = (errors[(n - 1) / 2] + errors[n / 2]) / 2,
                   .p90 = errors[(n * 9 + 9) / 10 - 1],
                   .worst = errors.back(),
                   .within = {}};
  for (std::size_t i = 0; i < kWithin.size(); ++i) {
    line.within[i] = share(at_most(kWithin[i]), n);
  }
  return line;
}

}  // namespace

std::vector<SummaryLine> summarise(const std::vector<Score>& scores) {
  std::map<Group, std::vector<double>> groups;
  for (const Score& score : scores) {
    groups[{score.source, score.runtime, score.parallel, score.metric}].push_back(
        std::abs(score.error));
  }
  std::vector<SummaryLine> lines;
  for (auto& [group, errors] : groups) {
    std::sort(errors.begin(), errors.end());
    lines.push_back(line_of(group, errors));
  }
  return lines;
}

}  // namespace headroom::check
