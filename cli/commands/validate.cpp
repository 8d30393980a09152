#include "cli/commands/verbs.h"

#include <algorithm>
#include <filesystem>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/arguments.h"
#include "cli/calibration.h"
#include "cli/model_argument.h"
#include "costmodel/hardware/catalogue.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/plan_file.h"
#include "validators/measured/accuracy.h"
#include "validators/measured/intervals.h"
#include "validators/measured/measure.h"
#include "validators/measured/report.h"
#include "validators/measured/runtime_tools.h"

namespace headroom::cli {
namespace {

Result<std::vector<std::string>> read_paths(const Arguments& arguments) {
  const std::vector<std::string>& given = arguments.positionals();
  if (given.empty() || given[0] != "measured") {
    return Error::invalid_argument(
        "WHAT", given.empty() ? "nothing" : given[0], "measured, or a plan file and --with",
        "headroom validate measured PATH..., or headroom validate PLAN.json --with dryrun");
  }
  if (given.size() == 1) {
    return Error::invalid_argument("PATH", "nothing", "files or folders with measured runs",
                                   "headroom validate measured PATH...");
  }
  return std::vector<std::string>(given.begin() + 1, given.end());
}

Result<check::ScoreFilter> read_filter(const Arguments& arguments) {
  check::ScoreFilter filter;
  filter.source = arguments.value("source");
  filter.runtime = arguments.value("runtime");
  if (const std::optional<PlanDocument>& document = arguments.plan_document()) {
    const Result<ir::PlanFile> file = document->content.read();
    if (!file) {
      return file.error();
    }
    filter.runtime = filter.runtime.value_or(file->plan.runtime);
  }
  if (const auto name = arguments.value("metric")) {
    const Result<check::Metric> metric = check::metric_named(*name);
    if (!metric) {
      return metric.error();
    }
    filter.metric = *metric;
  }
  return filter;
}

/// Refuses to write a report on only some of the rows, since it would look like a report on all.
std::optional<Error> refuse_partial_report(const Arguments& arguments) {
  for (const char* file : {"accuracy", "residuals"}) {
    for (const char* option : {"source", "runtime", "metric", "plan"}) {
      if (arguments.has(file) && arguments.has(option)) {
        return Error::invalid_argument(
            file,
            "cannot be combined with --" + std::string(option) + ": the report covers all runs", {},
            "leave out --" + std::string(option));
      }
    }
  }
  return std::nullopt;
}

/// Writes the files that `--accuracy` and `--residuals` name.
Status write_files(const Arguments& arguments, const check::Scoring& scoring) {
  for (const char* const option : {"accuracy", "residuals"}) {
    const std::string path = arguments.value(option).value_or("");
    if (std::ranges::any_of(arguments.positionals(), [&path](const std::string& input) {
          std::error_code ignored;
          return std::filesystem::equivalent(input, path, ignored);
        })) {
      return Error::invalid_argument(option, "is the input " + path, {},
                                     "choose another --" + std::string(option));
    }
  }
  if (!arguments.has("accuracy") && !arguments.has("residuals")) {
    return ok();
  }

  const Result<std::vector<check::Explanation>> explanations = load_explanations(arguments);
  if (!explanations) {
    return explanations.error();
  }
  const std::vector<cost::ResidualSet> residuals = check::residuals_of(scoring, *explanations);
  if (const auto file = arguments.value("accuracy")) {
    const std::string text = check::accuracy_markdown(scoring, *explanations, residuals);
    if (Status written = write_file_atomically(*file, text); !written) {
      return written;
    }
  }
  if (const auto file = arguments.value("residuals")) {
    return write_file_atomically(*file, to_pretty_json(cost::residuals_to_json(residuals)) + "\n");
  }
  return ok();
}

Result<ExitCode> run_validate(const Arguments& arguments, const Context& context) {
  const Result<std::vector<std::string>> paths = read_paths(arguments);
  if (!paths) {
    return paths.error();
  }
  const Result<check::ScoreFilter> filter = read_filter(arguments);
  if (!filter) {
    return filter.error();
  }
  if (auto refused = refuse_partial_report(arguments)) {
    return *std::move(refused);
  }
  // The catalogue is read only if a published row names a GPU.
  const check::DeviceFinder find_device =
      [&arguments](const std::string& name) -> Result<cost::DeviceSpec> {
    const Result<ConfigDir> folder = config_dir_of(arguments);
    return folder ? cost::load_device(folder->path, name) : folder.error();
  };
  const check::MachineFinder find_machine =
      [&arguments](const cost::DeviceSpec& device) -> Result<cost::Machine> {
    const Result<ConfigDir> folder = config_dir_of(arguments);
    return folder ? cost::load_machine(folder->path, device) : folder.error();
  };
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const Result<check::Scoring> scoring =
      check::score_files(*paths, check::runtime_tools(find_device, find_machine), *filter, threads);
  if (!scoring) {
    return scoring.error();
  }
  if (Status written = write_files(arguments, *scoring); !written) {
    return std::move(written).error();
  }
  if (!context.json) {
    context.out << check::report_text(*scoring);
    return ExitCode::kYes;
  }
  const Result<std::vector<cost::ResidualSet>> residuals = load_residuals(arguments);
  if (!residuals) {
    return residuals.error();
  }
  context.out << check::report_json(*scoring, *residuals);
  return ExitCode::kYes;
}

}  // namespace

Command validate_command() {
  return {
      .verb =
          {.name = "validate",
           .summary = "Compares predictions with measured runs",
           .positionals = "measured PATH... | PLAN.json [--with HOW | --device DEVICE]",
           .detail = "PATH is a file with measured runs, or a folder with such files: JSON lines "
                     "(.jsonl, .jsonl.gz) with one run per line, or a .json file with published "
                     "results; the exit code is then 0 however large the errors are. PLAN.json is "
                     "trained and compared: headroom validate --with dryrun --help and headroom "
                     "validate --device cpu --help list the options of both ways.",
           .options = {with_option(),
                       executor_device_option(),
                       {"source", "NAME", "", "only runs of the file with this name"},
                       {"runtime", "NAME", "",
                        "only runs of this framework, as --runtime of headroom fit names it"},
                       {"metric", "NAME", "", "only this metric, such as peak_allocated or fits"},
                       {"accuracy", "FILE", "",
                        "also write the accuracy report, in the form of docs/accuracy.md"},
                       {"residuals", "FILE", "",
                        "also write the errors that intervals are made from, in the form of "
                        "configs/accuracy/residuals.json"}},
           .example = "validate measured tests/measured/qlora.jsonl.gz --metric peak_allocated"},
      .run = run_validate};
}

}  // namespace headroom::cli
