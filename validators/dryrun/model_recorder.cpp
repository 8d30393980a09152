#include "validators/dryrun/model_recorder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "validators/dryrun/dry_run_files.h"
#include "validators/dryrun/interpreter.h"

namespace headroom::check {
namespace {

constexpr std::string_view kRecorderPackage = "headroom_record";
constexpr std::string_view kFamilyPackage = "headroom_record.family";

/// The folder that has the recorder's package.
Result<std::string> recorder_folder() {
  std::vector<std::string> places;
  const char* const home = std::getenv("HEADROOM_RECORD_HOME");  // NOLINT(concurrency-mt-unsafe)
  std::error_code fault;
  if (home != nullptr && *home != '\0') {
    places.push_back(std::filesystem::absolute(home, fault).string());
  } else {
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", fault);
    if (!fault) {
      places.push_back(
          (program.parent_path().parent_path() / "share/headroom/record/python").string());
    }
    places.emplace_back(HEADROOM_RECORD_SOURCE_FOLDER);
  }
  std::string tried;
  for (const std::string& place : places) {
    if (std::filesystem::exists(std::filesystem::path(place) / kRecorderPackage / "__main__.py",
                                fault)) {
      return place;
    }
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return Error::environment(tried, "without the recorder's Python files", {},
                            "build or install headroom as a whole (./run build), or name the "
                            "folder that has " +
                                std::string(kRecorderPackage) + " in HEADROOM_RECORD_HOME");
}

Error failed(const ModelSource& source, const DryRunEnd& end) {
  const std::string how = end.signal != 0 ? "signal " + std::to_string(end.signal)
                                          : "exit code " + std::to_string(end.exit_code);
  return Error::invalid_input(source.source, "", "a recorder that ended with " + how,
                              "a model whose code runs; its last message is above");
}

}  // namespace

Status record_model(const ModelSource& source) {
  Result<DryRunFiles> files = find_dry_run_files(dry_run_places());
  if (!files) {
    return std::move(files).error();
  }
  Result<std::string> folder = recorder_folder();
  if (!folder) {
    return std::move(folder).error();
  }
  files->python = std::move(folder).value();  // The dry run's own observation stays out.
  const std::string_view package = source.family ? kFamilyPackage : kRecorderPackage;
  DryRunRequest request{
      .command = {source.python, "-m", std::string(package), source.source, "-o", source.output},
      .device = source.device,
      .world = {},
      .steps = 0,
      .snapshot = {},
      .output_to_error = true};
  request.command.insert(request.command.end(), source.options.begin(), source.options.end());
  if (Status able = check_interpreter(request.command); !able) {
    return able;
  }
  const Result<DryRunEnd> end = run_dry(request, *files);
  if (!end) {
    return end.error();
  }
  return end->exit_code == 0 && end->signal == 0 ? ok() : Status(failed(source, *end));
}

}  // namespace headroom::check
