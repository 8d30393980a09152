#include "cli/calibration.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "cli/model_argument.h"
#include "cli/time_options.h"
#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_reader.h"
#include "runtimes/plan_json.h"

namespace headroom::cli {
namespace {

using ir::JsonValue;

constexpr std::string_view kCalibrateFrom = "calibrate-from";
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

/// One of the user's own runs, as read from the file.
struct OwnRun {
  std::string model;
  std::string gpu;
  ir::ParallelPlan plan;
  std::optional<std::int64_t> allocated;
  std::optional<std::int64_t> reserved;
  std::optional<double> step_time_ms;
};

Result<ir::ParallelPlan> read_run_plan(const JsonValue& value, const std::string& file,
                                       const std::string& pointer) {
  if (value.as_string() != nullptr) {
    return ir::read_plan(*value.as_string());
  }
  Result<ir::ParallelPlan> plan = ir::parse_plan(ir::to_json(value), file);
  if (!plan) {
    Error error = std::move(plan).error();
    error.pointer = pointer + error.pointer;
    return error;
  }
  return plan;
}

OwnRun read_figures(const ir::JsonObject& object) {
  OwnRun run;
  run.model = object.text("model");
  run.gpu = object.text("gpu");
  run.allocated = object.optional_integer("peak_allocated", {.least = 1, .greatest = kMostBytes});
  run.reserved = object.optional_integer("peak_reserved", {.least = 1, .greatest = kMostBytes});
  constexpr ir::NumberRange kTimes{.least = 1e-3, .greatest = 1e9};
  run.step_time_ms = object.optional_number("step_time_ms", kTimes);
  object.accept("plan");
  if (!run.allocated && !run.reserved && !run.step_time_ms) {
    object.refuse_product("none of peak_allocated, peak_reserved and step_time_ms",
                          "a measured figure");
  }
  return run;
}

Result<std::vector<OwnRun>> read_runs(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  const Result<JsonValue> document = ir::JsonReader::parse_root(*text, path);
  if (!document) {
    return document.error();
  }
  Result<ir::JsonReader> reader = ir::JsonReader::from_text(*text, path);
  if (!reader) {
    return std::move(reader).error();
  }
  if (const JsonValue* const list = document->find("runs");
      list == nullptr || list->as_array() == nullptr) {
    return Error::invalid_input(path, {}, "not a file of measured runs: it has no list \"runs\"",
                                {}, "configs/schema/runs.schema.json describes these files");
  }
  std::vector<OwnRun> runs;
  for (const ir::JsonObject& object : reader->root().objects_or_none("runs")) {
    runs.push_back(read_figures(object));
  }
  if (Status read = reader->finish_refusing_unknown_keys(); !read) {
    return std::move(read).error();
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string pointer = "/runs/" + std::to_string(i) + "/plan";
    const JsonValue* plan = (*document->find("runs")->as_array())[i].find("plan");
    if (plan == nullptr) {
      return Error::invalid_input(path, pointer, "nothing", "a plan, or the path of a file");
    }
    Result<ir::ParallelPlan> read = read_run_plan(*plan, path, pointer);
    if (!read) {
      return std::move(read).error();
    }
    runs[i].plan = std::move(read).value();
  }
  return runs;
}

/// (measured - predicted) / predicted.
double error_of(std::int64_t measured, Bytes predicted) {
  return static_cast<double>(measured) / static_cast<double>(predicted.value()) - 1;
}

Status add_run(const OwnRun& run, const Arguments& arguments, cost::Calibration& calibration) {
  const Result<LoadedModel> model = load_model(run.model, arguments);
  if (!model) {
    return model.error();
  }
  const Result<ConfigDir> folder = config_dir_of(arguments);
  const Result<cost::DeviceSpec> device =
      folder ? cost::load_device(folder->path, run.gpu) : folder.error();
  if (!device) {
    return device.error();
  }
  std::optional<cost::Machine> machine;
  if (run.step_time_ms) {
    Result<cost::Machine> known = load_asked_machine(arguments, folder->path, *device);
    if (!known) {
      return std::move(known).error();
    }
    machine = std::move(known).value();
  }
  const Result<cost::StepEstimate> estimate =
      cost::estimate(model->spec, run.plan, *device, Bytes{0}, machine ? &*machine : nullptr);
  if (!estimate) {
    return estimate.error();
  }
  if (run.allocated) {
    calibration.allocated.push_back(error_of(*run.allocated, estimate->peak_allocated));
  }
  if (run.reserved) {
    calibration.reserved.push_back(error_of(*run.reserved, estimate->peak_reserved));
  }
  if (run.step_time_ms) {
    constexpr double kMilliseconds = 1e3;
    calibration.step_time.push_back(
        *run.step_time_ms / (kMilliseconds * estimate->time->total.value()) - 1);
  }
  return ok();
}

}  // namespace

OptionSpec routing_option() {
  return {
      "routing-imbalance", "CV", "0.33, as published",
      "imbalance of the experts' load with expert parallelism: standard deviation of the tokens "
      "per expert, divided by their mean; 0: even shares. The verdict holds for 19 of 20 steps, "
      "the time is that of even shares"};
}

std::vector<OptionSpec> calibration_options() {
  return {{kCalibrateFrom, "FILE", "",
           "JSON file with your own measured runs, which narrow the intervals"}};
}

Result<cost::Calibration> read_calibration(const Arguments& arguments, const std::string& runtime) {
  cost::Calibration calibration;
  const auto path = arguments.value(kCalibrateFrom);
  if (!path) {
    return calibration;
  }
  const Result<std::vector<OwnRun>> runs = read_runs(*path);
  if (!runs) {
    return runs.error();
  }
  bool any = false;
  for (const OwnRun& run : *runs) {
    if (cost::residual_runtime(run.plan) != runtime) {
      continue;  // The errors of another framework differ.
    }
    any = true;
    if (Status added = add_run(run, arguments, calibration); !added) {
      return std::move(added).error();
    }
  }
  if (!any) {
    return Error::invalid_input(*path, "/runs", "no run with the framework " + runtime,
                                "at least one run with the framework of this question");
  }
  return calibration;
}

namespace {

template <typename Item>
Result<std::vector<Item>> load(const Arguments& arguments, const std::string& name,
                               Result<std::vector<Item>> (*read)(const std::string& path)) {
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  const std::string path = folder->path + "/accuracy/" + name;
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? read(path) : std::vector<Item>{};
}

}  // namespace

Result<std::vector<cost::ResidualSet>> load_residuals(const Arguments& arguments) {
  return load<cost::ResidualSet>(arguments, "residuals.json", cost::read_residuals);
}

Result<std::vector<check::Explanation>> load_explanations(const Arguments& arguments) {
  return load<check::Explanation>(arguments, "explanations.json", check::read_explanations);
}

}  // namespace headroom::cli
