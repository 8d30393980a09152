#include "validators/measured/accuracy.h"

#include <map>
#include <set>
#include <utility>

#include "validators/measured/summary.h"
#include "validators/measured/text_table.h"

namespace headroom::check {
namespace {

/// Source and runtime; an unknown runtime is "-".
using Origin = std::pair<std::string, std::string>;

Origin origin_of(const std::string& source, const std::string& runtime) {
  return {source, runtime.empty() ? "-" : runtime};
}

/// Rows of one origin, by what became of them.
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

std::string accuracy_markdown(const Scoring& scoring) {
  return "# Accuracy\n\n"
         "Written by `headroom validate measured tests/measured --accuracy docs/accuracy.md`; "
         "do not edit.\n"
         "What the sources are: `tests/measured/README.md`. A score compares one metric of one "
         "phase of one row.\n"
         "Errors are relative to the measurement; retries are differences, and a verdict (`fits`) "
         "is right (0) or wrong (1).\n\n"
         "## Rows\n\n" +
         rows_table(scoring) + "\n## Scores\n\n" + metrics_table(scoring) +
         "\n## Skipped\n\nRows, phases and metrics that were not compared, by reason.\n\n" +
         reasons_list(scoring);
}

}  // namespace headroom::check
