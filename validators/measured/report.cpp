#include "validators/measured/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "model_ir/base/units.h"
#include "model_ir/json/json_value.h"
#include "validators/measured/intervals.h"
#include "validators/measured/ranking.h"
#include "validators/measured/summary.h"
#include "validators/measured/text_table.h"

namespace headroom::check {
namespace {

using ir::JsonValue;

constexpr std::array<const char*, kWithin.size()> kWithinKeys = {"0.001", "0.005", "0.01", "0.02"};
constexpr std::size_t kWorst = 10;
constexpr std::size_t kReasons = 20;

JsonValue text_value(std::string_view text) {
  return JsonValue{std::string(text)};
}

JsonValue json_of(const SummaryLine& line) {
  JsonValue::Object within;
  for (std::size_t i = 0; i < kWithin.size(); ++i) {
    within.push_back({kWithinKeys[i], JsonValue{line.within[i]}});
  }
  return JsonValue{JsonValue::Object{{"source", text_value(line.source)},
                                     {"runtime", text_value(line.runtime)},
                                     {"parallel", text_value(line.parallel)},
                                     {"metric", text_value(name_of(line.metric))},
                                     {"n", JsonValue{static_cast<std::int64_t>(line.n)}},
                                     {"exact_share", JsonValue{line.exact_share}},
                                     {"median", JsonValue{line.median}},
                                     {"p90", JsonValue{line.p90}},
                                     {"worst", JsonValue{line.worst}},
                                     {"within", JsonValue{std::move(within)}}}};
}

JsonValue json_of(const Score& score, IntervalFinder& intervals) {
  JsonValue::Object object{{"id", text_value(score.id)},
                           {"source", text_value(score.source)},
                           {"runtime", text_value(score.runtime)},
                           {"parallel", text_value(score.parallel)},
                           {"phase", text_value(score.phase)},
                           {"metric", text_value(name_of(score.metric))},
                           {"predicted", JsonValue{score.predicted}},
                           {"measured", JsonValue{score.measured}},
                           {"error", JsonValue{score.error}}};
  if (const auto interval = intervals.find(score)) {
    object.push_back({"interval", JsonValue{JsonValue::Array{JsonValue{interval->low},
                                                             JsonValue{interval->high}}}});
  }
  return JsonValue{std::move(object)};
}

JsonValue json_of(const Skipped& skipped) {
  return JsonValue{
      JsonValue::Object{{"id", text_value(skipped.id)},
                        {"source", text_value(skipped.source)},
                        {"phase", skipped.phase ? text_value(*skipped.phase) : JsonValue{}},
                        {"reason", text_value(skipped.reason)}}};
}

JsonValue json_of(const RankingLine& line) {
  return JsonValue{JsonValue::Object{{"source", text_value(line.source)},
                                     {"subject", text_value(line.subject)},
                                     {"metric", text_value(name_of(line.metric))},
                                     {"n", JsonValue{static_cast<std::int64_t>(line.n)}},
                                     {"kendall_tau", JsonValue{line.tau}},
                                     {"attainable_tau", JsonValue{line.attainable}}}};
}

/// Writes one value per line, so that a diff of two reports is readable.
template <typename T, typename ToJson>
void append_list(std::string& out, std::string_view key, const std::vector<T>& items,
                 ToJson to_value) {
  out += " \"" + std::string(key) + "\": [";
  for (std::size_t i = 0; i < items.size(); ++i) {
    out += (i == 0 ? "\n  " : ",\n  ") + ir::to_json(to_value(items[i]));
  }
  out += "]";
}

/// Errors are relative, except those of two metrics.
std::string error_text(Metric metric, double error) {
  if (metric == Metric::kRetries || metric == Metric::kFits) {
    std::array<char, 32> text{};
    const int length = std::snprintf(text.data(), text.size(), "%.4g", error);
    return {text.data(), static_cast<std::size_t>(length)};
  }
  return percent(error);
}

std::string value_text(double value) {
  return std::abs(value) < 9e15 && std::trunc(value) == value
             ? with_commas(static_cast<std::int64_t>(value))
             : std::to_string(value);
}

std::string summary_table(const std::vector<Score>& scores) {
  std::vector<std::vector<std::string>> rows{
      {"source", "runtime", "parallel", "metric", "n", "exact", "median", "p90", "worst"}};
  for (const SummaryLine& line : summarise(scores)) {
    rows.push_back({line.source, line.runtime, line.parallel, std::string(name_of(line.metric)),
                    std::to_string(line.n), percent(line.exact_share),
                    error_text(line.metric, line.median), error_text(line.metric, line.p90),
                    error_text(line.metric, line.worst)});
  }
  return text_table(rows, {Align::kLeft, Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight,
                           Align::kRight, Align::kRight, Align::kRight, Align::kRight});
}

std::string skip_table(const std::vector<Skipped>& skipped) {
  std::map<std::string, std::size_t> reasons;
  for (const Skipped& one : skipped) {
    ++reasons[one.reason];
  }
  std::vector<std::pair<std::string, std::size_t>> ranked(reasons.begin(), reasons.end());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::vector<std::string>> rows{{"skipped", "reason"}};
  for (std::size_t i = 0; i < std::min(kReasons, ranked.size()); ++i) {
    rows.push_back({std::to_string(ranked[i].second), ranked[i].first});
  }
  std::string text = text_table(rows, {Align::kRight, Align::kLeft});
  if (ranked.size() > kReasons) {
    text += "and " + std::to_string(ranked.size() - kReasons) + " more reasons; --json has all\n";
  }
  return text;
}

std::string worst_scores_table(const std::vector<Score>& scores) {
  std::vector<const Score*> ranked;
  for (const Score& score : scores) {
    if (score.error != 0) {
      ranked.push_back(&score);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Score* a, const Score* b) {
    return std::abs(a->error) > std::abs(b->error);
  });
  ranked.resize(std::min(kWorst, ranked.size()));
  if (ranked.empty()) {
    return "every score is exact\n";
  }
  std::vector<std::vector<std::string>> rows{
      {"worst", "id", "phase", "metric", "predicted", "measured"}};
  for (const Score* score : ranked) {
    rows.push_back({error_text(score->metric, score->error), score->id, score->phase,
                    std::string(name_of(score->metric)), value_text(score->predicted),
                    value_text(score->measured)});
  }
  return text_table(rows, {Align::kRight, Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight,
                           Align::kRight});
}

/// Empty if no model was run in several ways.
std::string ranking_table(const std::vector<Score>& scores) {
  const std::vector<RankingLine> lines = rank_agreement(scores);
  if (lines.empty()) {
    return {};
  }
  const auto three_digits = [](double value) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "%.3f", value);
    return std::string(text.data());
  };
  std::vector<std::vector<std::string>> rows{
      {"Kendall's tau", "attainable", "source", "runs of", "metric", "n"}};
  for (const RankingLine& line : lines) {
    rows.push_back({three_digits(line.tau), three_digits(line.attainable), line.source,
                    line.subject, std::string(name_of(line.metric)), std::to_string(line.n)});
  }
  return "\n" + text_table(rows, {Align::kRight, Align::kRight, Align::kLeft, Align::kLeft,
                                  Align::kLeft, Align::kRight});
}

}  // namespace

std::string report_json(const Scoring& scoring, std::span<const cost::ResidualSet> residuals) {
  IntervalFinder intervals(residuals);
  const auto plain = [](const auto& item) { return json_of(item); };
  std::string out = "{\"schema_version\": 1,\n";
  append_list(out, "summary", summarise(scoring.scores), plain);
  out += ",\n";
  append_list(out, "scores", scoring.scores,
              [&intervals](const Score& score) { return json_of(score, intervals); });
  out += ",\n";
  append_list(out, "ranking", rank_agreement(scoring.scores), plain);
  out += ",\n";
  append_list(out, "skipped", scoring.skipped, plain);
  return out + "}\n";
}

std::string report_text(const Scoring& scoring) {
  std::string text =
      scoring.scores.empty() ? "nothing could be compared\n" : summary_table(scoring.scores) + "\n";
  if (!scoring.scores.empty()) {
    text += worst_scores_table(scoring.scores) + ranking_table(scoring.scores);
  }
  if (!scoring.skipped.empty()) {
    text += "\n" + skip_table(scoring.skipped);
  }
  return text;
}

}  // namespace headroom::check
