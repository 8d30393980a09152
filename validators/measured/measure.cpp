#include "validators/measured/measure.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "model_ir/plan/plan_words.h"
#include "validators/measured/row_reader.h"

namespace headroom::check {

namespace {

/// Refuses a source that no row has.
Status check_source(const std::vector<MeasuredRow>& rows, const ScoreFilter& filter) {
  std::vector<std::string> sources;
  for (const MeasuredRow& row : rows) {
    if (std::ranges::find(sources, row.source) == sources.end()) {
      sources.push_back(row.source);
    }
  }
  if (!filter.source || std::ranges::find(sources, *filter.source) != sources.end()) {
    return ok();
  }
  const std::optional<std::string> closest = closest_word(*filter.source, sources);
  return Error::invalid_argument(
      "source", *filter.source,
      "the name of a file with measured runs, without its ending: " + ir::join(sources),
      closest ? "did you mean " + *closest + "?" : "");
}

}  // namespace

Result<Scoring> score_files(const std::vector<std::string>& paths, const ScoreTools& tools,
                            const ScoreFilter& filter, int threads) {
  std::vector<MeasuredRow> rows;
  for (const std::string& path : paths) {
    Result<std::vector<MeasuredRow>> read = read_rows(path);
    if (!read) {
      return std::move(read).error();
    }
    std::move(read.value().begin(), read.value().end(), std::back_inserter(rows));
  }
  if (Status known = check_source(rows, filter); !known) {
    return std::move(known).error();
  }
  return score_rows(rows, tools, filter, threads);
}

Result<Metric> metric_named(const std::string& name) {
  std::vector<std::string> names;
  for (int i = 0; i < kMetricCount; ++i) {
    const auto metric = static_cast<Metric>(i);
    if (name == name_of(metric)) {
      return metric;
    }
    names.emplace_back(name_of(metric));
  }
  const std::optional<std::string> closest = closest_word(name, names);
  return Error::invalid_argument("metric", name, "a metric such as peak_allocated",
                                 closest ? "did you mean " + *closest + "?" : "");
}

}  // namespace headroom::check
