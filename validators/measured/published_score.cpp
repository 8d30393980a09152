#include <algorithm>
#include <array>

#include "costmodel/memory_floor.h"
#include "validators/measured/case_reader.h"
#include "validators/measured/published_plan.h"
#include "validators/measured/published_words.h"
#include "validators/measured/row_scorer.h"

namespace headroom::check {
namespace {

using ir::JsonValue;

std::string text_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value != nullptr && value->as_string() != nullptr ? *value->as_string() : "";
}

void measure_memory(const JsonValue& measured, PublishedMeasures& out) {
  const JsonValue* value = measured.find("peak_mem_value");
  const auto number = value != nullptr ? value->as_number() : std::nullopt;
  if (!number) {
    return;
  }
  CaseReader reader(&measured, "measured");
  const std::string words = reader.text("mem_metric", "");
  const std::string unit = reader.text("peak_mem_unit", "");
  const auto metric = published_metric(words);
  if (!metric) {
    out.skips.emplace_back(std::nullopt, "mem_metric: '" + words + "'");
    return;
  }
  // peak_mem_gib is filled where whoever read the source could tell what the unit means.
  const double gib = reader.number("peak_mem_gib", 0);
  if (const auto bytes = published_unit(unit)) {
    out.values.push_back({*metric, *number * *bytes});
  } else if (gib > 0) {
    out.values.push_back({*metric, gib * static_cast<double>(kGiB)});
  } else {
    out.skips.emplace_back(*metric, "peak_mem_unit: '" + unit + "'");
  }
}

double predicted_value(Metric metric, const cost::StepEstimate& estimate) {
  if (metric == Metric::kPeakReserved) {
    return static_cast<double>(estimate.peak_reserved.value());
  }
  if (metric == Metric::kPeakDriver) {
    return static_cast<double>((estimate.peak_reserved + estimate.outside_bytes).value());
  }
  return static_cast<double>(estimate.peak_allocated.value());
}

/// A peak below what parameters, gradients and states take is that of other settings than the
/// row's.
bool contradicts(const PublishedSetting& setting, const PublishedMeasures& measures) {
  const auto floor = static_cast<double>(cost::memory_floor(setting.model, setting.plan).value());
  return std::any_of(measures.values.begin(), measures.values.end(),
                     [floor](const MetricValue& value) { return value.value < floor; });
}

/// LitGPT cuts its data at the sequence length, which not every batch reaches: a row proves nothing
/// about two full batches in a row, whose logits overlap. Whether one of them fits.
bool fits_alone(const PublishedSetting& setting, const ScoreTools& tools) {
  if (setting.plan.model_code != ir::ModelCode::kLitgpt) {
    return false;
  }
  ir::ParallelPlan alone = setting.plan;
  alone.accumulation = 1;
  alone.steps = 1;
  const auto estimate = tools.estimate(setting.model, alone, setting.device);
  return estimate && estimate->verdict != cost::Verdict::kDoesNotFit;
}

}  // namespace

std::optional<Skip> unknown_measure(const JsonValue& measured) {
  const JsonValue* fits = measured.find("fits");
  const JsonValue* peak = measured.find("peak_mem_value");
  if ((fits != nullptr && !fits->is_null()) || peak == nullptr || peak->is_null()) {
    return std::nullopt;
  }
  const std::string words = text_of(measured, "mem_metric");
  return published_metric(words) ? std::nullopt
                                 : std::optional(Skip{"mem_metric: '" + words + "'"});
}

PublishedMeasures published_measures(const JsonValue& measured) {
  PublishedMeasures out;
  measure_memory(measured, out);
  constexpr std::array<Metric, 3> kTimes = {Metric::kStepTime, Metric::kTokensPerSecond,
                                            Metric::kTflops};
  for (const Metric metric : kTimes) {
    const JsonValue* value = measured.find(name_of(metric));
    if (value != nullptr && !value->is_null()) {
      out.skips.emplace_back(metric, std::string(name_of(metric)) + ": not modelled");
    }
  }
  if (const JsonValue* fits = measured.find("fits")) {
    out.fits = fits->as_bool();
  }
  return out;
}

Scoring score_published(const MeasuredRow& row, const RowLabels& labels, const ScoreTools& tools) {
  RowScorer scorer(row, labels);
  const PublishedPlanned planned = plan_of_published(row, tools);
  if (const Skip* skip = std::get_if<Skip>(&planned)) {
    scorer.skip(skip->reason);
    return scorer.take();
  }
  const auto& setting = std::get<PublishedSetting>(planned);
  const PublishedMeasures measures = published_measures(row.measured_raw);
  if (contradicts(setting, measures)) {
    scorer.skip("peak_mem_value: less than the parameters, gradients and states of its optimizer");
    return scorer.take();
  }
  const Result<cost::StepEstimate> estimate =
      tools.estimate(setting.model, setting.plan, setting.device);
  if (!estimate) {
    scorer.skip(skip_of(estimate.error()).reason);
    return scorer.take();
  }
  const bool fits = estimate->verdict != cost::Verdict::kDoesNotFit;
  if (!fits && fits_alone(setting, tools)) {
    scorer.skip("seq_len: two full batches in a row do not fit, one does");
    return scorer.take();
  }
  if (measures.fits) {
    scorer.score("run", Metric::kFits, fits ? 1 : 0, *measures.fits ? 1 : 0);
    if (!fits || !*measures.fits) {
      return scorer.take();
    }
  }
  for (const MetricValue& value : measures.values) {
    scorer.score("run", value.metric, predicted_value(value.metric, estimate.value()), value.value);
  }
  for (const auto& [metric, reason] : measures.skips) {
    scorer.skip(reason, "run", metric);
  }
  return scorer.take();
}

}  // namespace headroom::check
