// `headroom validate PLAN.json --with dryrun|torch`.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/verbs.h"
#include "cli/judged_question.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/question.h"
#include "cli/report/validation_answer.h"
#include "cli/scalars.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/registry.h"
#include "validators/dryrun/interpreter.h"
#include "validators/dryrun/launcher.h"
#include "validators/dryrun/recorded_replay.h"
#include "validators/dryrun/report_folder.h"
#include "validators/torch/gpu_run.h"
#include "validators/torch/harness_files.h"
#include "validators/torch/known_options.h"
#include "validators/torch/training_case.h"

namespace headroom::cli {
namespace {

constexpr double kUsualTolerance = 0.01;
constexpr std::int64_t kMostTimedSteps = 1000;

/// The question of the plan file, its script, and how it is measured.
struct PlanRun {
  std::string file;
  bool on_gpu = false;
  std::string python;
  std::string folder;  ///< Folder of the training script.
  std::string snapshot;
  double tolerance = kUsualTolerance;
  std::int64_t timed_steps = 8;
  Arguments filed;
  Question question;
  ir::JsonValue training_case;
};

/// The measured side of the comparison.
struct PlanMeasurement {
  check::DryRunReport report{};
  check::DryRunJudgement judged{};
  std::optional<double> step_seconds{};
  std::string device{};
  bool interrupted = false;
  std::string failure{};
};

Result<std::string> file_of_plan(const Arguments& arguments) {
  const std::vector<std::string>& given = arguments.positionals();
  if (given.size() == 1 && given[0] != "measured") {
    return given[0];
  }
  return Error::invalid_argument("PLAN.json", given.empty() ? "nothing" : ir::join(given),
                                 "one plan file, as headroom plan --output writes it",
                                 "headroom validate PLAN.json --with dryrun");
}

Result<bool> is_on_gpu(const Arguments& arguments) {
  const std::string how = arguments.value("with").value_or("");
  if (how != "dryrun" && how != "torch") {
    return Error::invalid_argument("with", how, "dryrun or torch",
                                   "--with dryrun needs no GPU, --with torch runs on one");
  }
  return how == "torch";
}

/// "1%", "0.5 %" or "0.01".
Result<double> tolerance_of(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.value("tolerance");
  if (!text) {
    return kUsualTolerance;
  }
  std::string number = *text;
  const bool percent = number.ends_with('%');
  number.erase(number.find_last_not_of("% ") + 1);
  Result<double> value = parse_real("tolerance", number, 0, percent ? 100 : 1);
  if (!value) {
    return Error::invalid_argument("tolerance", *text, "a share such as 1% or 0.01");
  }
  return percent ? *value / 100 : *value;
}

Result<std::string> snapshot_file(const Arguments& arguments) {
  const std::optional<std::string> path = arguments.value("snapshot");
  if (!path) {
    return std::string();
  }
  std::error_code fault;
  const std::filesystem::path whole = std::filesystem::absolute(*path, fault);
  if (path->empty() || fault || !std::filesystem::is_directory(whole.parent_path(), fault)) {
    return Error::invalid_argument("snapshot", *path, "a file in a folder that exists");
  }
  return whole.string();
}

/// The question of the plan file, with the GPU of the command line if one was typed.
Result<Arguments> filed_question(const Arguments& arguments, const std::string& file) {
  Arguments asked;
  asked.set("plan", file);
  for (const std::string_view option : {"gpu", "budget", "node", "config-dir"}) {
    if (const auto value = arguments.value(option)) {
      asked.set(option, *value);
    }
  }
  Result<Arguments> filed = with_plan_file(fit_command().verb, asked);
  if (filed && filed->positionals().empty()) {
    return Error::invalid_input(file, "/model", "no model", "the name or the path of a model",
                                "add \"model\", or write the file with headroom plan --output");
  }
  if (filed && !filed->has("gpu")) {
    return Error::invalid_argument("gpu", "the plan file names no GPU", {},
                                   "add --gpu, such as --gpu h100-80gb");
  }
  if (filed && filed->has("as")) {
    return Error::invalid_input(file, "/assumptions/as", *filed->value("as"),
                                "a model that is read as what it is");
  }
  return filed;
}

/// Sets where the stand-in for CUDA differs from a driver (docs/dryrun.md, docs/architecture.md):
/// PyTorch chooses its own attention kernels, and each segment lies above the one before it.
void choose_stand_in(ir::ParallelPlan& plan, const Context& context) {
  plan.allocator.segments = check::standin_settings().segments;
  if (plan.attention == ir::AttentionKind::kSdpa) {
    plan.attention = ir::AttentionKind::kSdpaNoCudnn;
    add_notes(context,
              {"the dry run has no cuDNN attention: both sides use PyTorch's own kernels"});
  }
}

Result<PlanRun> read_run(const Arguments& arguments, const Context& context) {
  PlanRun run;
  Result<std::string> file = file_of_plan(arguments);
  const Result<bool> on_gpu = is_on_gpu(arguments);
  const Result<double> tolerance = tolerance_of(arguments);
  Result<std::string> snapshot = snapshot_file(arguments);
  if (!file || !on_gpu || !tolerance || !snapshot) {
    return !file        ? std::move(file).error()
           : !on_gpu    ? on_gpu.error()
           : !tolerance ? tolerance.error()
                        : std::move(snapshot).error();
  }
  if (const auto text = arguments.value("timed-steps")) {
    const Result<std::int64_t> steps = parse_whole("timed-steps", *text, 0, kMostTimedSteps);
    if (!steps) {
      return steps.error();
    }
    run.timed_steps = *steps;
  }
  run.file = std::move(file).value();
  run.on_gpu = *on_gpu;
  run.tolerance = *tolerance;
  run.snapshot = std::move(snapshot).value();
  run.python = arguments.value("python").value_or("python3");
  Result<Arguments> filed = filed_question(arguments, run.file);
  if (!filed) {
    return std::move(filed).error();
  }
  run.filed = std::move(filed).value();
  Result<Question> question = read_question(run.filed);
  if (!question) {
    return std::move(question).error();
  }
  run.question = std::move(question).value();
  ir::ParallelPlan& plan = run.question.request.plan;
  if (Status known = check::check_script_options(plan, run.file); !known) {
    return std::move(known).error();
  }
  if (!run.on_gpu) {
    choose_stand_in(plan, context);
  }
  Result<ir::JsonValue> config = model_configuration(run.filed.positionals().front(), run.filed);
  Result<std::string> folder = check::find_training_script(check::training_script_places());
  if (!config || !folder) {
    return config ? std::move(folder).error() : std::move(config).error();
  }
  run.folder = std::move(folder).value();
  Result<ir::JsonValue> training_case = check::training_case({.spec = run.question.model.spec,
                                                              .name = run.question.model.label,
                                                              .config = std::move(config).value()},
                                                             plan);
  if (!training_case) {
    return std::move(training_case).error();
  }
  run.training_case = std::move(training_case).value();
  return run;
}

/// The failure of the measured program, if it did not run out of memory.
std::string failure_of(const check::DryRunReport& report, int exit_code, int signal) {
  if (report.exception) {
    return printable(report.exception->type) + ": " + printable(report.exception->message);
  }
  return signal != 0      ? "signal " + std::to_string(signal) + " ended the program"
         : exit_code != 0 ? "the program ended with exit code " + std::to_string(exit_code)
                          : std::string();
}

Result<PlanMeasurement> measure_dry(const PlanRun& run, std::int64_t rank) {
  const ir::ParallelPlan& plan = run.question.request.plan;
  const check::DryRunWorld world{.ranks = plan.world, .rank = rank};
  Result<check::DryRunDevice> profile =
      check::profile_of(run.question.device, run.question.budget, world);
  const Result<check::DryRunFiles> files = check::find_dry_run_files(check::dry_run_places());
  if (!profile || !files) {
    return profile ? files.error() : std::move(profile).error();
  }
  const check::ReportFolder temporary;
  if (!temporary.exists()) {
    return check::no_report_folder();
  }
  const std::string case_file = temporary.file("case.json");
  if (Status written = write_file_atomically(case_file, to_pretty_json(run.training_case));
      !written) {
    return std::move(written).error();
  }
  const check::DryRunRequest request{
      .command = check::script_command(run.python, run.folder, case_file),
      .device = std::move(profile).value(),
      .world = world,
      .steps = 0,
      .snapshot = run.snapshot,
      .output_to_error = true};
  if (Status able = check::check_interpreter(request.command); !able) {
    return std::move(able).error();
  }
  Result<check::DryRunEnd> end = check::run_dry(request, *files);
  if (!end) {
    return std::move(end).error();
  }
  const auto measured = [](const check::DryRunReport& report) { return !report.phases.empty(); };
  if (!end->interrupted && std::ranges::none_of(end->reports, measured)) {
    return check::no_report(request.command, *end);
  }
  PlanMeasurement measurement{.interrupted = end->interrupted};
  if (!end->reports.empty()) {
    measurement.report = end->reports[check::binding_report(end->reports)];
    measurement.judged = check::judge_dry_run(request.device, *end, measurement.report);
  }
  measurement.device = "no GPU; " + request.device.product + " as the catalogue has it";
  measurement.failure = failure_of(measurement.report, end->exit_code, end->signal);
  return measurement;
}

Result<PlanMeasurement> measure_on_gpus(const PlanRun& run, std::int64_t rank) {
  const std::int64_t world = run.question.request.plan.world;
  const check::GpuProbe probe = check::probe_gpus(run.python);
  if (Status able = check::check_gpus(probe, run.python, world); !able) {
    return std::move(able).error();
  }
  Result<check::GpuRunEnd> end = check::run_on_gpus({.python = run.python,
                                                     .folder = run.folder,
                                                     .training_case = run.training_case,
                                                     .world = world,
                                                     .timed_steps = run.timed_steps,
                                                     .snapshot = run.snapshot});
  if (!end) {
    return std::move(end).error();
  }
  PlanMeasurement measurement{.device = probe.name, .interrupted = end->interrupted};
  measurement.step_seconds = end->step_seconds;
  const auto shown = std::ranges::find(end->reports, std::optional<std::int64_t>(rank),
                                       &check::DryRunReport::rank);
  if (!end->reports.empty()) {
    measurement.report = shown == end->reports.end() ? end->reports.front() : *shown;
  }
  const check::DryRunReport& report = measurement.report;
  measurement.failure = failure_of(report, end->exit_code, end->signal);
  const check::DryRunDevice device{.name = run.question.device.name,
                                   .product = probe.name,
                                   .total = report.device_total,
                                   .outside = Bytes{end->outside_bytes},
                                   .terms = {}};
  measurement.judged = check::judge_dry_run(device,
                                            {.exit_code = end->exit_code,
                                             .signal = end->signal,
                                             .interrupted = end->interrupted,
                                             .reports = end->reports},
                                            report);
  return measurement;
}

/// The verdict on the run. `dryrun` warns that little memory was left; here the margin says it.
std::string verdict_of(check::DryRunVerdict verdict) {
  return std::string(
      name_of(verdict == check::DryRunVerdict::kTight ? check::DryRunVerdict::kFits : verdict));
}

ValidationAnswer answer_of(const PlanRun& run, const JudgedQuestion& judged,
                           const PlanMeasurement& measurement) {
  const cost::StepEstimate& estimate = judged.estimate;
  const ir::ParallelPlan& plan = run.question.request.plan;
  ValidationAnswer answer{.plan_file = run.file,
                          .model = run.question.model.label,
                          .setting = ir::runtime_of(plan).describe(plan),
                          .with = run.on_gpu ? "torch" : "dryrun",
                          .device = run.question.device.name,
                          .used = measurement.device,
                          .gpus = plan.world,
                          .rank = static_cast<std::int64_t>(estimate.rank),
                          .tolerance = run.tolerance,
                          .predicted = {.verdict = std::string(name_of(estimate.device_verdict)),
                                        .margin = estimate.margin,
                                        .peaks = {.allocated = estimate.peak_allocated,
                                                  .reserved = estimate.peak_reserved},
                                        .step_seconds = {}},
                          .measured = {.verdict = verdict_of(measurement.judged.verdict),
                                       .margin = measurement.judged.margin,
                                       .peaks = {.allocated = measurement.judged.peak_allocated,
                                                 .reserved = measurement.judged.peak_reserved},
                                       .step_seconds = measurement.step_seconds},
                          .phases = check::compare_phases(
                              estimate.timeline.phases,
                              check::observed_phases(measurement.report.phases, plan.workload.steps,
                                                     plan.workload.accumulation),
                              plan.workload.accumulation),
                          .versions = check::compared_versions(plan, measurement.report.versions),
                          .failure = measurement.failure,
                          .snapshot = {},
                          .notes = {}};
  if (estimate.failure) {
    answer.predicted.missing_at_failure = missing_at(*estimate.failure, estimate.capacity);
  }
  if (measurement.judged.verdict == check::DryRunVerdict::kDoesNotFit) {
    answer.measured.missing_at_failure = -measurement.judged.margin;
  }
  if (estimate.time) {
    answer.predicted.step_seconds = estimate.time->total.value();
  }
  std::error_code fault;
  if (!run.snapshot.empty() && std::filesystem::exists(run.snapshot, fault)) {
    answer.snapshot = run.snapshot;
  }
  return answer;
}

/// Writes the script for another machine instead of running it.
Result<ExitCode> write_script(const PlanRun& run, const std::string& path, const Context& context) {
  const ir::ParallelPlan& plan = run.question.request.plan;
  const std::string start =
      plan.world > 1 ? "torchrun --nproc_per_node " + std::to_string(plan.world) : "python";
  const Result<std::string> script =
      check::whole_script(run.folder, run.training_case,
                          "Trains " + run.question.model.label +
                              " as a plan of Headroom says, with random weights and "
                              "tokens.\n\n    " +
                              start +
                              " FILE [--report FOLDER]\n\nWith --report, what PyTorch allocated "
                              "in each phase is written to FOLDER.\n");
  if (!script) {
    return script.error();
  }
  if (Status written = write_file_atomically(path, *script); !written) {
    return std::move(written).error();
  }
  if (context.json) {
    ir::JsonFields document;
    document.add("schema_version", 1);
    document.add("script", path);
    context.out << to_pretty_json(std::move(document).finish()) << "\n";
  } else {
    context.out << "wrote " << path << "; start it with: " << start << " " << path << "\n";
  }
  return ExitCode::kYes;
}

ExitCode code_of_answer(const ValidationAnswer& answer) {
  return !answer.is_measured() ? ExitCode::kBadInput
         : answer.agrees()     ? ExitCode::kYes
                               : ExitCode::kNo;
}

Result<ExitCode> run_validate_plan(const Arguments& arguments, const Context& context) {
  if (Status safe = check_output(arguments); !safe) {
    return std::move(safe).error();
  }
  const Result<PlanRun> run = read_run(arguments, context);
  if (!run) {
    return run.error();
  }
  if (const auto path = arguments.value("script")) {
    return write_script(*run, *path, context);
  }
  const Result<JudgedQuestion> judged =
      judge_question(run->filed, run->question, UsualRouting::kEven);
  if (!judged) {
    return judged.error();
  }
  const auto rank = static_cast<std::int64_t>(judged->estimate.rank);
  const Result<PlanMeasurement> measurement =
      run->on_gpu ? measure_on_gpus(*run, rank) : measure_dry(*run, rank);
  if (!measurement) {
    return measurement.error();
  }
  if (measurement->interrupted) {
    context.err << "error: interrupted before the program came to its end\n";
    return ExitCode::kInterrupted;
  }
  ValidationAnswer answer = answer_of(*run, *judged, *measurement);
  answer.notes = context.notes->lines;
  const bool json = context.json || arguments.has("output");
  ir::JsonFields summary;
  summary.add("schema_version", 1);
  summary.add("answer", answer.agrees() ? "agrees" : "differs");
  Result<ExitCode> written =
      put_out(arguments, context,
              json ? validation_json(answer) : validation_text(answer, context.terminal),
              std::move(summary), json);
  if (!written) {
    return written;
  }
  if (arguments.has("output") && !context.json) {
    context.out << validation_text(answer, context.terminal);
  }
  return code_of_answer(answer);
}

}  // namespace

OptionSpec with_option() {
  return {.name = "with",
          .value = "HOW",
          .fallback = "",
          .help =
              "train what a plan file says and compare: dryrun (no GPU needed), or torch (on "
              "the GPUs of this machine)"};
}

Command validate_plan_command() {
  std::vector<OptionSpec> options = {
      with_option(),
      {"python", "PATH", "python3", "Python of an environment with PyTorch and the framework"},
      {"tolerance", "SHARE", "1%",
       "largest error of the peaks of allocated and of reserved memory, relative to what was "
       "measured"}};
  options.insert(options.end(), device_options().begin(), device_options().end());
  const std::vector<OptionSpec> rest = {
      {"node", "NAME", "that of the plan file", "machine that holds the GPUs"},
      {"snapshot", "FILE", "", "file for PyTorch's memory snapshot"},
      {"timed-steps", "N", "8", "with torch: steps whose median time is measured; 0: none"},
      {"script", "FILE", "",
       "write the training script to this file, complete in itself, and run nothing"},
      {"output", "FILE", "", "also write the JSON document to this file"}};
  options.insert(options.end(), rest.begin(), rest.end());
  return {
      .verb = {.name = "validate",
               .summary = "Trains what a plan says, and compares its memory with the prediction",
               .positionals = "PLAN.json --with HOW",
               .detail = "PLAN.json is what headroom plan --output or any verb's --json "
                         "writes. Its training script is made for transformers (one GPU, DDP), "
                         "FSDP or DeepSpeed. The exit code is 0 if both peaks are within the "
                         "tolerance, or if both sides say that the run does not fit.",
               .options = std::move(options),
               .example = "validate plan.json --with dryrun --python venv/bin/python"},
      .run = run_validate_plan,
      .when = {"with"}};
}

}  // namespace headroom::cli
