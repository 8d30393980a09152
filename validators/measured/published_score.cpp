#include <algorithm>

#include "costmodel/memory_floor.h"
#include "costmodel/time/model_flops.h"
#include "runtimes/interface/runs/run_reader.h"
#include "runtimes/registry.h"
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
  ir::RunReader reader(&measured, "measured");
  const std::string words = reader.text("mem_metric", "");
  const std::string unit = reader.text("peak_mem_unit", "");
  const auto metric = published_metric(words);
  if (!metric) {
    out.skips.emplace_back(std::nullopt, "mem_metric: '" + words + "'");
    return;
  }
  // peak_mem_gib is present if the person who read the source could tell what the unit means.
  const double gib = reader.number("peak_mem_gib", 0);
  if (const auto bytes = published_unit(unit)) {
    out.values.push_back({*metric, *number * *bytes});
  } else if (gib > 0) {
    out.values.push_back({*metric, gib * static_cast<double>(kGiB)});
  } else {
    out.skips.emplace_back(*metric, "peak_mem_unit: '" + unit + "'");
  }
}

void measure_times(const JsonValue& measured, PublishedMeasures& out) {
  for (const Metric metric : {Metric::kStepTime, Metric::kTokensPerSecond, Metric::kTflops}) {
    const JsonValue* value = measured.find(name_of(metric));
    const auto number = value != nullptr ? value->as_number() : std::nullopt;
    if (number && *number > 0) {
      out.values.push_back({metric, *number});
    }
  }
}

double predicted_bytes(Metric metric, const cost::StepEstimate& estimate) {
  if (metric == Metric::kPeakReserved) {
    return static_cast<double>(estimate.peak_reserved.value());
  }
  if (metric == Metric::kPeakDriver) {
    return static_cast<double>((estimate.peak_reserved + estimate.outside_bytes).value());
  }
  return static_cast<double>(estimate.peak_allocated.value());
}

/// TFLOP/s of each GPU, with the row's authors' way of counting FLOPs.
double predicted_tflops(const ir::FlopCount& count, const ir::PublishedRun& run,
                        const cost::StepTime& step) {
  const double per_token = cost::model_flops_per_token(
      run.model, run.plan.workload.sequence,
      count.masked_keys ? cost::AttentionCount::kAllKeys : cost::AttentionCount::kSeenKeys,
      ir::runtime_of(run.plan).predicted_layers(run.plan));
  const double again = count.recomputed ? step.hardware_flops / step.model_flops : 1;
  return per_token * again * step.tokens_per_second_per_gpu() / 1e12;
}

/// What a row does not state about its GPU, if the rates depend on it. Memory does not.
std::string_view unstated_of_gpu(std::string_view words) {
  if (words.find("power limited") != std::string_view::npos) {
    return "a limit of power that is not stated";
  }
  return words == "NVIDIA H100" ? "which H100 is not stated" : "";
}

/// Whether a rate is higher than one such GPU can reach: a table may give the rate of all GPUs
/// together.
bool is_beyond(const MetricValue& value, const cost::StepTime& step) {
  const std::optional<double> mfu = step.mfu();
  return value.metric == Metric::kTokensPerSecond && mfu &&
         *mfu * value.value > step.tokens_per_second_per_gpu();
}

/// Compares a time or a rate, or skips it with the reason.
void score_time(const MetricValue& value, const PublishedSetting& setting,
                const cost::StepEstimate& estimate, const MeasuredRow& row, RowScorer& scorer) {
  const std::string name(name_of(value.metric));
  if (!estimate.time) {
    scorer.skip(name + ": no performance data of " + setting.device.name, "run", value.metric);
    return;
  }
  const cost::StepTime& step = *estimate.time;
  const std::string_view unstated = unstated_of_gpu(text_of(row.setting, "gpu"));
  if (!unstated.empty()) {
    scorer.skip(name + ": " + std::string(unstated), "run", value.metric);
  } else if (is_beyond(value, step)) {
    scorer.skip(name + ": more than one GPU can compute", "run", value.metric);
  } else if (!setting.run.untimed.empty()) {
    scorer.skip(name + ": " + setting.run.untimed, "run", value.metric);
  } else if (value.metric != Metric::kTflops) {
    const bool rate = value.metric == Metric::kTokensPerSecond;
    scorer.score("run", value.metric,
                 rate ? step.tokens_per_second_per_gpu() : step.total.value() * 1e3, value.value);
  } else if (setting.run.model.attention_sinks) {
    // At the same tokens/s, releases report 27.2, 30.8 and 32.6 GFLOP per token of gpt-oss-120b.
    scorer.skip(name + ": releases count gpt-oss's FLOPs in different ways", "run", value.metric);
  } else if (setting.run.flops) {
    scorer.score("run", value.metric, predicted_tflops(*setting.run.flops, setting.run, step),
                 value.value);
  } else {
    scorer.skip(name + ": how '" + row.framework + "' counts FLOPs is not known", "run",
                value.metric);
  }
}

/// Whether a peak is below the size of parameters, gradients and states, so that the run must have
/// had other settings than the row says.
bool contradicts(const PublishedSetting& setting, const PublishedMeasures& measures) {
  const auto floor =
      static_cast<double>(cost::memory_floor(setting.run.model, setting.run.plan).value());
  return std::any_of(
      measures.values.begin(), measures.values.end(),
      [floor](const MetricValue& value) { return !is_time(value.metric) && value.value < floor; });
}

/// Whether a full batch fits, for a run whose batches are not all full.
bool fits_alone(const PublishedSetting& setting, const ScoreTools& tools) {
  const ir::PublishedRun& run = setting.run;
  if (!run.has_short_batches) {
    return false;
  }
  ir::ParallelPlan alone = run.plan;
  alone.workload.accumulation = 1;
  alone.workload.steps = 1;
  const auto estimate = tools.estimate(run.model, alone, setting.device, run.conditions);
  return estimate && estimate->verdict != cost::Verdict::kDoesNotFit;
}

/// The peak of one rank's run: that of its highest phase.
double highest_peak(const Prediction& prediction) {
  double highest = 0;
  for (const PredictedPhase& phase : prediction.phases) {
    highest = std::max(highest, phase.find(Metric::kPeakAllocated).value_or(0));
  }
  return highest;
}

void skip_measures(const PublishedMeasures& measures, RowScorer& scorer) {
  for (const auto& [metric, reason] : measures.skips) {
    scorer.skip(reason, "run", metric);
  }
}

/// Compares what the allocator of one rank logged in a functional test.
void score_rank(const PublishedSetting& setting, ir::Rank rank, const PublishedMeasures& measures,
                const ScoreTools& tools, RowScorer& scorer) {
  if (measures.values.empty()) {
    scorer.skip("measured: no memory");
    return;
  }
  const Result<Prediction> prediction = tools.predict({.model = setting.run.model,
                                                       .plan = setting.run.plan,
                                                       .traits = setting.device.traits,
                                                       .capacity = setting.device.total,
                                                       .rank = rank});
  if (!prediction) {
    scorer.skip(skip_of(prediction.error()).reason);
    return;
  }
  for (const MetricValue& value : measures.values) {
    if (value.metric == Metric::kPeakAllocated) {
      scorer.score("run", value.metric, highest_peak(*prediction), value.value);
    } else {
      scorer.skip(
          std::string(name_of(value.metric)) + ": of a functional test, which checks itself", "run",
          value.metric);
    }
  }
  skip_measures(measures, scorer);
}

}  // namespace

std::optional<Skip> unknown_measure(const JsonValue& measured) {
  const JsonValue* fits = measured.find("fits");
  PublishedMeasures times;
  measure_times(measured, times);
  if (!times.values.empty()) {
    return std::nullopt;
  }
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
  measure_times(measured, out);
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
  const ir::PublishedRun& run = setting.run;
  const PublishedMeasures measures = published_measures(row.measured_raw);
  if (run.rank) {
    score_rank(setting, *run.rank, measures, tools, scorer);
    return scorer.take();
  }
  if (contradicts(setting, measures)) {
    scorer.skip("peak_mem_value: less than the parameters, gradients and states of its optimizer");
    return scorer.take();
  }
  const Result<cost::StepEstimate> estimate =
      tools.estimate(run.model, run.plan, setting.device, run.conditions);
  if (!estimate) {
    scorer.skip(skip_of(estimate.error()).reason);
    return scorer.take();
  }
  const bool fits = estimate->verdict != cost::Verdict::kDoesNotFit;
  if (!fits && fits_alone(setting, tools)) {
    scorer.skip("seq_len: two full batches in a row do not fit, one does");
    return scorer.take();
  }
  if (run.stands_in) {
    scorer.skip("framework: the modelling code of '" + row.framework + "' is not modelled", "run",
                Metric::kFits);
  } else if (measures.fits) {
    scorer.score("run", Metric::kFits, fits ? 1 : 0, *measures.fits ? 1 : 0);
    if (!fits || !*measures.fits) {
      return scorer.take();
    }
  }
  for (const MetricValue& value : measures.values) {
    if (is_time(value.metric)) {
      score_time(value, setting, estimate.value(), row, scorer);
    } else if (!run.stands_in) {
      scorer.score("run", value.metric, predicted_bytes(value.metric, estimate.value()),
                   value.value);
    }
  }
  skip_measures(measures, scorer);
  return scorer.take();
}

}  // namespace headroom::check
