#include "costmodel/residuals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

constexpr std::array<Measurand, 3> kMeasurands = {Measurand::kPeakAllocated,
                                                  Measurand::kPeakReserved, Measurand::kStepTime};

double rounded(double error) {
  constexpr double kScale = 1e6;
  return std::round(error * kScale) / kScale + 0.0;  // Never "-0".
}

std::optional<Measurand> measurand_named(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kMeasurands, [name](Measurand measurand) { return name_of(measurand) == name; });
  return found == kMeasurands.end() ? std::nullopt : std::optional(*found);
}

ResidualSet read_set(const ir::JsonObject& object) {
  ResidualSet set;
  set.source = object.text("source");
  set.runtime = object.text("runtime");
  const std::optional<Measurand> measurand = measurand_named(object.text("measurand"));
  if (!measurand) {
    object.refuse("measurand", "peak_allocated, peak_reserved or step_time");
  }
  set.measurand = measurand.value_or(Measurand::kPeakAllocated);
  set.on_gpu = object.boolean("on_gpu");
  constexpr std::int64_t kMostRuns = 1'000'000;
  const auto exact =
      static_cast<std::size_t>(object.integer_or("exact", 0, {.least = 0, .greatest = kMostRuns}));
  set.errors = object.numbers_or_none("errors", {.least = -1});
  set.errors.insert(set.errors.end(), exact, 0.0);
  std::ranges::sort(set.errors);
  if (set.errors.empty()) {
    object.refuse("errors", "at least one run");
  }
  return set;
}

}  // namespace

std::string_view name_of(Measurand measurand) {
  switch (measurand) {
    case Measurand::kPeakAllocated:
      return "peak_allocated";
    case Measurand::kPeakReserved:
      return "peak_reserved";
    case Measurand::kStepTime:
      return "step_time";
  }
  return "?";
}

std::string residual_runtime(const ir::ParallelPlan& plan) {
  return std::string(ir::runtime_of(plan).residual_family(plan));
}

ir::JsonValue residuals_to_json(std::span<const ResidualSet> sets) {
  ir::JsonValue::Array array;
  for (const ResidualSet& set : sets) {
    ir::JsonValue::Array errors;
    std::int64_t exact = 0;
    for (const double error : set.errors) {
      if (rounded(error) == 0) {
        ++exact;  // Most are exact; a count keeps the file short.
      } else {
        errors.emplace_back(rounded(error));
      }
    }
    ir::JsonFields fields;
    fields.add("source", set.source);
    fields.add("runtime", set.runtime);
    fields.add("measurand", name_of(set.measurand));
    fields.add("on_gpu", set.on_gpu);
    fields.add("exact", exact);
    fields.add("errors", ir::JsonValue{std::move(errors)});
    array.push_back(std::move(fields).finish());
  }
  ir::JsonFields document;
  document.add("schema_version", 1);
  document.add("sets", ir::JsonValue{std::move(array)});
  return std::move(document).finish();
}

Result<std::vector<ResidualSet>> read_residuals(const std::string& path) {
  Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return std::move(reader).error();
  }
  const ir::JsonObject root = reader->root();
  (void)root.integer("schema_version", {.least = 1, .greatest = 1});
  std::vector<ResidualSet> sets;
  for (const ir::JsonObject& object : root.objects_or_none("sets")) {
    sets.push_back(read_set(object));
  }
  if (Status read = reader->finish_refusing_unknown_keys(); !read) {
    return std::move(read).error();
  }
  return sets;
}

}  // namespace headroom::cost
