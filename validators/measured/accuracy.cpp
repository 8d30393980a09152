#include "validators/measured/accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "validators/measured/intervals.h"
#include "validators/measured/summary.h"
#include "validators/measured/text_table.h"

namespace headroom::check {
namespace {

/// Source and runtime. An unknown runtime is "-".
using Origin = std::pair<std::string, std::string>;

Origin origin_of(const std::string& source, const std::string& runtime) {
  return {source, runtime.empty() ? "-" : runtime};
}

/// Rows of one origin, grouped by result.
struct RowCounts {
  std::set<std::string> compared;
  std::set<std::string> wrong_verdict;
  std::set<std::string> inexact;
  std::set<std::string> skipped;
};

std::map<Origin, RowCounts> count_rows(const Scoring& scoring) {
  std::map<Origin, RowCounts> counts;
  for (const Score& score : scoring.scores) {
    RowCounts& at = counts[origin_of(score.source, score.runtime)];
    at.compared.insert(score.id);
    if (score.error != 0) {
      at.inexact.insert(score.id);
    }
    if (score.metric == Metric::kFits && score.error != 0) {
      at.wrong_verdict.insert(score.id);
    }
  }
  for (const Skipped& skipped : scoring.skipped) {
    if (!skipped.phase) {
      counts[origin_of(skipped.source, skipped.runtime)].skipped.insert(skipped.id);
    }
  }
  return counts;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) {
    line += " " + cell + " |";
  }
  return line + "\n";
}

std::string rows_table(const Scoring& scoring) {
  std::string text =
      markdown_row({"source", "runtime", "rows compared", "rows with every score exact",
                    "wrong verdicts", "rows skipped"}) +
      "|---|---|---:|---:|---:|---:|\n";
  for (const auto& [origin, rows] : count_rows(scoring)) {
    text += markdown_row({origin.first, origin.second, std::to_string(rows.compared.size()),
                          std::to_string(rows.compared.size() - rows.inexact.size()),
                          std::to_string(rows.wrong_verdict.size()),
                          std::to_string(rows.skipped.size())});
  }
  return text;
}

std::string metrics_table(const Scoring& scoring) {
  std::string text = markdown_row({"source", "runtime", "parallel", "metric", "scores", "exact",
                                   "median", "90 % within", "worst"}) +
                     "|---|---|---|---|---:|---:|---:|---:|---:|\n";
  for (const SummaryLine& line : summarise(scoring.scores)) {
    const bool plain = line.metric == Metric::kRetries || line.metric == Metric::kFits;
    const auto shown = [plain](double error) {
      return plain ? std::to_string(static_cast<std::int64_t>(error)) : percent(error);
    };
    text +=
        markdown_row({line.source, line.runtime, line.parallel, std::string(name_of(line.metric)),
                      std::to_string(line.n), percent(line.exact_share), shown(line.median),
                      shown(line.p90), shown(line.worst)});
  }
  return text;
}

/// Whether a metric is listed with the worst rows: bytes and times are. Counts of work are
/// summarised below.
bool is_prediction(Metric metric) {
  switch (metric) {
    case Metric::kFits:
    case Metric::kRetries:
    case Metric::kGemmFlops:
    case Metric::kKernels:
    case Metric::kCollectiveBytes:
    case Metric::kCollectiveCalls:
      return false;
    default:
      return true;
  }
}

/// The worst score of each row whose error exceeds `kWorthARow`, largest errors first, and at most
/// `kMostWorst` for each source and runtime.
std::vector<const Score*> worst_rows(const Scoring& scoring) {
  constexpr double kWorthARow = 0.001;
  constexpr std::size_t kMostWorst = 5;
  std::map<Origin, std::map<std::string, const Score*>> worst;
  for (const Score& score : scoring.scores) {
    if (!is_prediction(score.metric) || std::abs(score.error) <= kWorthARow) {
      continue;
    }
    const Score*& at = worst[origin_of(score.source, score.runtime)][score.id];
    at = at == nullptr || std::abs(score.error) > std::abs(at->error) ? &score : at;
  }
  std::vector<const Score*> all;
  for (const auto& [origin, rows] : worst) {
    std::vector<const Score*> ranked;
    for (const auto& [id, score] : rows) {
      ranked.push_back(score);
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const Score* a, const Score* b) {
      return std::abs(a->error) > std::abs(b->error);
    });
    ranked.resize(std::min(kMostWorst, ranked.size()));
    all.insert(all.end(), ranked.begin(), ranked.end());
  }
  return all;
}

std::string worst_rows_table(const Scoring& scoring, const std::vector<Explanation>& explanations) {
  std::string text =
      markdown_row({"source", "row", "parallel", "phase", "metric", "error", "why"}) +
      "|---|---|---|---|---|---:|---|\n";
  for (const Score* score : worst_rows(scoring)) {
    const auto found =
        std::find_if(explanations.begin(), explanations.end(),
                     [score](const Explanation& one) { return is_about(one, *score); });
    text += markdown_row({score->source, score->id, score->parallel, score->phase,
                          std::string(name_of(score->metric)), percent(score->error),
                          found == explanations.end() ? "not explained" : found->why});
  }
  return text;
}

std::string coverage_table(const Scoring& scoring, std::span<const cost::ResidualSet> residuals) {
  std::string text =
      markdown_row({"source", "runtime", "metric", "measured on", "runs", "inside"}) +
      "|---|---|---|---|---:|---:|\n";
  std::size_t runs = 0;
  std::size_t inside = 0;
  for (const Coverage& one : coverage_of(scoring, residuals)) {
    runs += one.runs;
    inside += one.inside;
    text +=
        markdown_row({one.source, one.runtime, std::string(name_of(one.metric)),
                      one.on_gpu ? "GPUs" : "an accounting device", std::to_string(one.runs),
                      percent(static_cast<double>(one.inside) / static_cast<double>(one.runs))});
  }
  const double share = runs == 0 ? 0 : static_cast<double>(inside) / static_cast<double>(runs);
  return text + markdown_row({"all", "", "", "", std::to_string(runs), percent(share)});
}

std::string reasons_list(const Scoring& scoring) {
  std::map<std::string, std::size_t> reasons;
  for (const Skipped& skipped : scoring.skipped) {
    ++reasons[skipped.reason];
  }
  std::string text;
  for (const auto& [reason, count] : reasons) {
    text += "- " + std::to_string(count) + ": " + reason + "\n";
  }
  return text.empty() ? "- none\n" : text;
}

}  // namespace

std::string accuracy_markdown(const Scoring& scoring, const std::vector<Explanation>& explanations,
                              std::span<const cost::ResidualSet> residuals) {
  return "# Accuracy\n\n"
         "Written by `headroom validate measured tests/measured --accuracy docs/accuracy.md`; "
         "do not edit.\n"
         "What the sources are: `tests/measured/README.md`. A score compares one metric of one "
         "phase of one row.\n"
         "Errors are relative to the measurement; retries are differences, and a verdict (`fits`) "
         "is right (0) or wrong (1).\n\n"
         "## Rows\n\n" +
         rows_table(scoring) +
         "\n## Worst rows\n\nThe worst score of each of the five worst rows of a source and "
         "runtime "
         "that are missed by more than 0.1 %.\n\n" +
         worst_rows_table(scoring, explanations) +
         "\n## Intervals\n\nHow often the peak or time measured in a run lay inside the 95 % "
         "interval around its prediction.\nThe interval of a row comes from the errors of the "
         "other "
         "sources alone (`costmodel/confidence.h`).\n\n" +
         coverage_table(scoring, residuals) + "\n## Scores\n\n" + metrics_table(scoring) +
         "\n## Skipped\n\nRows, phases and metrics that were not compared, by reason.\n\n" +
         reasons_list(scoring);
}

}  // namespace headroom::check
