#include "validators/measured/intervals.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace headroom::check {
namespace {

/// Source, runtime, id, metric.
using RunKey = std::tuple<std::string, std::string, std::string, Metric>;

bool is_rate(Metric metric) {
  return metric == Metric::kTokensPerSecond || metric == Metric::kTflops;
}

/// (measured - predicted) / predicted. If the score is a rate, the error of the corresponding time.
double residual_of(const Score& score) {
  return is_rate(score.metric) ? score.predicted / score.measured - 1
                               : score.measured / score.predicted - 1;
}

/// One score per run. If a run has several phases, the score compares the peaks over all of them.
std::vector<Score> whole_runs(const Scoring& scoring) {
  std::map<RunKey, Score> runs;
  for (const Score& score : scoring.scores) {
    if (!measurand_of(score.metric)) {
      continue;
    }
    const RunKey key{score.source, score.runtime, score.id, score.metric};
    const auto [entry, is_new] = runs.try_emplace(key, score);
    if (!is_new) {
      entry->second.predicted = std::max(entry->second.predicted, score.predicted);
      entry->second.measured = std::max(entry->second.measured, score.measured);
    }
  }
  std::vector<Score> whole;
  for (auto& [key, score] : runs) {
    if (score.predicted > 0 && score.measured > 0) {
      whole.push_back(std::move(score));
    }
  }
  return whole;
}

bool is_of_recording(const Score& score, const std::vector<Explanation>& explanations) {
  return std::any_of(explanations.begin(), explanations.end(), [&score](const Explanation& one) {
    return one.of_recording && is_about(one, score);
  });
}

}  // namespace

std::optional<cost::Measurand> measurand_of(Metric metric) {
  switch (metric) {
    case Metric::kPeakAllocated:
      return cost::Measurand::kPeakAllocated;
    case Metric::kPeakReserved:
      return cost::Measurand::kPeakReserved;
    case Metric::kStepTime:
    case Metric::kTokensPerSecond:
    case Metric::kTflops:
      return cost::Measurand::kStepTime;
    default:
      return std::nullopt;
  }
}

std::vector<cost::ResidualSet> residuals_of(const Scoring& scoring,
                                            const std::vector<Explanation>& explanations) {
  using Key = std::tuple<std::string, std::string, cost::Measurand>;
  std::map<Key, std::map<std::string, double>> errors;  // Keyed by run; a run has one step time.
  std::map<Key, bool> on_gpu;
  for (const Score& score : whole_runs(scoring)) {
    if (!is_of_recording(score, explanations)) {
      const Key key{score.source, score.runtime, *measurand_of(score.metric)};
      errors[key].try_emplace(score.id, residual_of(score));
      on_gpu[key] = score.on_gpu;
    }
  }
  std::vector<cost::ResidualSet> sets;
  for (const auto& [key, runs] : errors) {
    cost::ResidualSet set{.source = std::get<0>(key),
                          .runtime = std::get<1>(key),
                          .measurand = std::get<2>(key),
                          .on_gpu = on_gpu[key],
                          .errors = {}};
    for (const auto& [id, error] : runs) {
      set.errors.push_back(error);
    }
    std::sort(set.errors.begin(), set.errors.end());
    sets.push_back(std::move(set));
  }
  return sets;
}

std::optional<IntervalFinder::Interval> IntervalFinder::find(const Score& score) {
  const auto measurand = measurand_of(score.metric);
  if (!measurand) {
    return std::nullopt;
  }
  const auto [entry, is_new] = ranges_.try_emplace(Key{score.source, score.runtime, *measurand});
  if (is_new) {
    std::vector<cost::ResidualSet> others;
    std::copy_if(sets_.begin(), sets_.end(), std::back_inserter(others),
                 [&score](const cost::ResidualSet& set) { return set.source != score.source; });
    const cost::ErrorModel model = cost::error_model(others, score.runtime, *measurand);
    entry->second = model.runs > 0 ? std::optional(model.range) : std::nullopt;
  }
  if (!entry->second) {
    return std::nullopt;
  }
  const cost::ErrorRange& range = *entry->second;
  if (is_rate(score.metric)) {
    return Interval{.low = score.predicted / (1 + range.high),
                    .high = score.predicted / (1 + range.low)};
  }
  return Interval{.low = score.predicted * (1 + range.low),
                  .high = score.predicted * (1 + range.high)};
}

std::vector<Coverage> coverage_of(const Scoring& scoring, std::span<const cost::ResidualSet> sets) {
  IntervalFinder finder(sets);
  std::map<std::tuple<std::string, std::string, Metric>, Coverage> found;
  for (const Score& score : whole_runs(scoring)) {
    const auto interval = finder.find(score);
    if (!interval) {
      continue;
    }
    Coverage& at = found[{score.source, score.runtime, score.metric}];
    at.source = score.source;
    at.runtime = score.runtime;
    at.metric = score.metric;
    at.on_gpu = score.on_gpu;
    ++at.runs;
    at.inside += interval->holds(score.measured) ? 1U : 0U;
  }
  std::vector<Coverage> all;
  for (auto& [key, coverage] : found) {
    all.push_back(std::move(coverage));
  }
  return all;
}

}  // namespace headroom::check
