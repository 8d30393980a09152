#include "validators/measured/score.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>

#include "validators/measured/published_words.h"

namespace headroom::check {
namespace {

const PredictedPhase* find_phase(const Prediction& prediction, const ir::PhaseName& name) {
  const auto found =
      std::find_if(prediction.phases.begin(), prediction.phases.end(),
                   [&name](const PredictedPhase& phase) { return phase.name == name; });
  return found == prediction.phases.end() ? nullptr : &*found;
}

void score_phase(const MeasuredPhase& measured, const PredictedPhase& predicted,
                 RowScorer& scorer) {
  const std::string phase = to_text(measured.name);
  for (const MetricValue& value : measured.values) {
    if (const auto guess = predicted.find(value.metric)) {
      scorer.score(phase, value.metric, *guess, value.value);
    } else {
      scorer.skip("metric " + std::string(name_of(value.metric)) + ": not modelled", phase,
                  value.metric);
    }
  }
}

/// Compares the time of the last step of a case that was timed on a GPU.
void score_step(const MeasuredRow& row, const ir::RunSetting& setting, const ScoreTools& tools,
                RowScorer& scorer) {
  const double measured = last_step_seconds(row);
  if (measured <= 0 || row.gpu.empty() || !tools.step_time || !tools.find_device) {
    return;
  }
  const auto name = published_device(row.gpu);
  const auto device = name ? std::optional(tools.find_device(std::string(*name))) : std::nullopt;
  if (!device || !*device) {
    scorer.skip("gpu: '" + row.gpu + "'", "run", Metric::kStepTime);
    return;
  }
  const Result<Seconds> predicted = tools.step_time(setting, **device);
  if (predicted) {
    scorer.score("run", Metric::kStepTime, 1e3 * predicted->value(), 1e3 * measured);
  } else {
    scorer.skip(skip_of(predicted.error()).reason, "run", Metric::kStepTime);
  }
}

/// Scores a row. If a program invariant breaks (`InternalError`), only this row is skipped, with
/// the place of the fault, and the report still covers the others.
Scoring score_guarded(const MeasuredRow& row, const ScoreTools& tools) {
  try {
    return score_row(row, tools);
  } catch (const std::logic_error& fault) {
    const RowLabels labels = labels_of(row);
    RowScorer scorer(row, labels);
    scorer.skip("internal error: " + std::string(fault.what()));
    return scorer.take();
  }
}

void keep_metric(Metric metric, Scoring& scoring) {
  std::erase_if(scoring.scores, [metric](const Score& score) { return score.metric != metric; });
  std::erase_if(scoring.skipped, [metric](const Skipped& skipped) {
    return skipped.metric && *skipped.metric != metric;
  });
}

bool passes(const MeasuredRow& row, const ScoreFilter& filter) {
  return (!filter.source || *filter.source == row.source) &&
         (!filter.runtime || *filter.runtime == labels_of(row).runtime);
}

}  // namespace

Scoring score_case(const MeasuredRow& row, const RowLabels& labels, const Prediction& prediction) {
  RowScorer scorer(row, labels);
  scorer.score("run", Metric::kFits, prediction.fits ? 1 : 0, row.out_of_memory ? 0 : 1);
  if (row.out_of_memory || !prediction.fits) {
    return scorer.take();
  }
  for (const MeasuredPhase& phase : row.phases) {
    if (const PredictedPhase* predicted = find_phase(prediction, phase.name)) {
      score_phase(phase, *predicted, scorer);
    } else {
      const std::string name = to_text(phase.name);
      scorer.skip("phase " + name + ": not in the prediction", name);
    }
  }
  return scorer.take();
}

Scoring score_row(const MeasuredRow& row, const ScoreTools& tools) {
  const RowLabels labels = labels_of(row);
  if (row.form == RowForm::kPublished) {
    return score_published(row, labels, tools);
  }
  RowScorer scorer(row, labels);
  const Planned planned = plan_of_case(row);
  if (const Skip* skip = std::get_if<Skip>(&planned)) {
    scorer.skip(skip->reason);
    return scorer.take();
  }
  const Result<Prediction> prediction = tools.predict(std::get<ir::RunSetting>(planned));
  if (!prediction) {
    scorer.skip(skip_of(prediction.error()).reason);
    return scorer.take();
  }
  Scoring scoring = score_case(row, labels, prediction.value());
  if (!row.out_of_memory && prediction->fits) {
    score_step(row, std::get<ir::RunSetting>(planned), tools, scorer);
    Scoring time = scorer.take();
    std::move(time.scores.begin(), time.scores.end(), std::back_inserter(scoring.scores));
    std::move(time.skipped.begin(), time.skipped.end(), std::back_inserter(scoring.skipped));
  }
  return scoring;
}

Scoring score_rows(const std::vector<MeasuredRow>& rows, const ScoreTools& tools,
                   const ScoreFilter& filter, int threads) {
  std::vector<const MeasuredRow*> chosen;
  for (const MeasuredRow& row : rows) {
    if (passes(row, filter)) {
      chosen.push_back(&row);
    }
  }
  std::vector<Scoring> parts(chosen.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < chosen.size(); i = next++) {
      parts[i] = score_guarded(*chosen[i], tools);
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int i = 1; i < threads; ++i) {
      pool.emplace_back(work);
    }
    work();
  }  // The pool's threads are joined here.
  Scoring all;
  for (Scoring& part : parts) {
    if (filter.metric) {
      keep_metric(*filter.metric, part);
    }
    std::move(part.scores.begin(), part.scores.end(), std::back_inserter(all.scores));
    std::move(part.skipped.begin(), part.skipped.end(), std::back_inserter(all.skipped));
  }
  return all;
}

}  // namespace headroom::check
