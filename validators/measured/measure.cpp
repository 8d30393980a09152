#include "validators/measured/measure.h"

#include <iterator>
#include <optional>
#include <utility>

#include "validators/measured/row_reader.h"

namespace headroom::check {

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
