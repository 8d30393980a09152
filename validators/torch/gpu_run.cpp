#include "validators/torch/gpu_run.h"

#include <filesystem>

#include "model_ir/base/counted.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "validators/dryrun/child_process.h"
#include "validators/dryrun/report_folder.h"

namespace headroom::check {
namespace {

/// Prints {"trouble", "gpus", "name"}. What PyTorch says of a missing driver or device comes from
/// torch.cuda.init.
constexpr const char* kGpuQuestion = R"(
import json
answer = {"trouble": "", "gpus": 0, "name": ""}
try:
    import torch
    if not torch.version.cuda:
        answer["trouble"] = "PyTorch " + torch.__version__ + " is a build without CUDA"
    else:
        torch.cuda.init()
        answer["gpus"] = torch.cuda.device_count()
        answer["name"] = torch.cuda.get_device_name(0)
except ImportError as error:
    answer["trouble"] = "PyTorch cannot be imported: " + str(error)
except Exception as error:
    answer["trouble"] = "PyTorch " + torch.__version__ + " finds no GPU: " + str(error).split("\n")[0]
print(json.dumps(answer))
)";

const std::string* text_in(const ir::JsonValue& object, std::string_view key) {
  const ir::JsonValue* const value = object.find(key);
  return value == nullptr ? nullptr : value->as_string();
}

}  // namespace

GpuProbe probe_gpus(const std::string& python) {
  constexpr int kPatience = 120;  // Seconds; importing PyTorch from a cold disk takes most of it.
  const std::string answer = output_of({.command = {python, "-c", kGpuQuestion},
                                        .environment = own_environment(),
                                        .output_to_error = false},
                                       kPatience);
  const Result<ir::JsonValue> value = ir::parse_json(answer, python);
  if (!value || value->as_object() == nullptr) {
    return {};
  }
  const ir::JsonValue* const gpus = value->find("gpus");
  const std::string* const trouble = text_in(*value, "trouble");
  const std::string* const name = text_in(*value, "name");
  return {.answered = true,
          .trouble = trouble == nullptr ? "" : *trouble,
          .gpus = gpus == nullptr ? 0 : gpus->as_integer().value_or(0),
          .name = name == nullptr ? "" : *name};
}

Status check_gpus(const GpuProbe& probe, const std::string& python, std::int64_t world) {
  const std::string instead = "; --with dryrun needs no GPU";
  if (!probe.answered) {
    return Error::environment(
        python, "does not run or gives no answer", {},
        "name the Python of an environment with PyTorch: --python PATH" + instead);
  }
  if (!probe.trouble.empty()) {
    return Error::environment(python, printable(probe.trouble), {},
                              "name another Python with --python PATH" + instead);
  }
  if (probe.gpus < world) {
    return Error::environment(
        python,
        "finds " + counted(probe.gpus, "GPU") + ", and the plan has " + std::to_string(world), {},
        "run it on a machine with as many" + instead);
  }
  return ok();
}

std::vector<std::string> script_command(const std::string& python, const std::string& folder,
                                        const std::string& case_file) {
  return {python, "-W", "ignore", (std::filesystem::path(folder) / "train.py").string(), case_file};
}

Result<GpuRunEnd> run_on_gpus(const GpuRun& run) {
  const ReportFolder temporary;
  if (!temporary.exists()) {
    return no_report_folder();
  }
  const std::string case_file = temporary.file("case.json");
  if (Status written = write_file_atomically(case_file, to_pretty_json(run.training_case));
      !written) {
    return std::move(written).error();
  }
  std::vector<std::string> command = script_command(run.python, run.folder, case_file);
  if (run.world > 1) {
    // Source: pytorch/pytorch torch/distributed/run.py.
    command = {run.python,
               "-W",
               "ignore",
               "-m",
               "torch.distributed.run",
               "--standalone",
               "--nproc_per_node",
               std::to_string(run.world),
               command[3],
               case_file};
  }
  command.insert(command.end(), {"--report", temporary.reports(), "--timed-steps",
                                 std::to_string(run.timed_steps)});
  if (!run.snapshot.empty()) {
    command.insert(command.end(), {"--snapshot", run.snapshot});
  }
  const Result<ChildEnd> ended =
      run_child({.command = command, .environment = own_environment(), .output_to_error = true});
  if (!ended) {
    return ended.error();
  }
  Result<std::vector<DryRunReport>> reports = read_reports(temporary.reports());
  if (!reports) {
    return std::move(reports).error();
  }
  GpuRunEnd end{.exit_code = ended->exit_code,
                .signal = ended->signal,
                .interrupted = ended->interrupted,
                .reports = std::move(reports).value(),
                .step_seconds = {},
                .outside_bytes = 0};
  if (end.reports.empty() && !end.interrupted) {
    return Error::invalid_input(
        run.python, "",
        "ended with exit code " + std::to_string(end.exit_code) + " before it measured anything",
        "", "its own words are above");
  }
  if (!end.reports.empty()) {
    const Result<std::string> text = read_file(end.reports.front().file);
    const Result<ir::JsonValue> value = text ? ir::parse_json(*text, end.reports.front().file)
                                             : Result<ir::JsonValue>(text.error());
    if (value) {
      const ir::JsonValue* const seconds = value->find("step_seconds");
      const ir::JsonValue* const outside = value->find("outside_bytes");
      end.step_seconds = seconds == nullptr ? std::nullopt : seconds->as_number();
      end.outside_bytes = outside == nullptr ? 0 : outside->as_integer().value_or(0);
    }
  }
  return end;
}

}  // namespace headroom::check
