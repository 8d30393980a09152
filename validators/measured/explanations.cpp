#include "validators/measured/explanations.h"

#include <algorithm>
#include <utility>

#include "model_ir/json/json_reader.h"
#include "validators/measured/measure.h"

namespace headroom::check {
namespace {

Explanation read_one(const ir::JsonObject& object) {
  Explanation explanation{.source = object.text("source"),
                          .rows = object.texts_or_none("rows"),
                          .metrics = {},
                          .why = object.text("why"),
                          .of_recording = object.boolean_or("of_recording", false)};
  if (explanation.rows.empty()) {
    object.refuse("rows", "at least one id");
  }
  for (const std::string& name : object.texts_or_none("metrics")) {
    if (const Result<Metric> metric = metric_named(name)) {
      explanation.metrics.push_back(*metric);
    } else {
      object.refuse("metrics", metric.error().wanted, metric.error().fix);
    }
  }
  return explanation;
}

}  // namespace

bool is_about(const Explanation& explanation, const Score& score) {
  const auto holds = [](const auto& list, const auto& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  };
  return explanation.source == score.source && holds(explanation.rows, score.id) &&
         (explanation.metrics.empty() || holds(explanation.metrics, score.metric));
}

Result<std::vector<Explanation>> read_explanations(const std::string& path) {
  Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return std::move(reader).error();
  }
  std::vector<Explanation> explanations;
  for (const ir::JsonObject& object : reader->root().objects_or_none("explanations")) {
    explanations.push_back(read_one(object));
  }
  if (Status read = reader->finish_refusing_unknown_keys(); !read) {
    return std::move(read).error();
  }
  return explanations;
}

}  // namespace headroom::check
