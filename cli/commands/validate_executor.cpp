// `headroom validate PLAN.json [--device DEVICE]`: the executor.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/verbs.h"
#include "cli/device_choice.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/question.h"
#include "cli/report/validation_answer.h"
#include "cli/scalars.h"
#include "costmodel/time/model_flops.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/spec/param_count.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "validators/executor/confirmation.h"
#include "validators/executor/cpu/cpu_backend.h"

namespace headroom::cli {
namespace {

/// Largest relative difference of what the driver lost and of the predicted segments: pages that
/// the driver rounds up to, and what libraries take while a program runs. What the allocator counts
/// must be the same to the byte.
constexpr double kDriverTolerance = 0.005;

/// A minute or two of the CPU's arithmetic in fp64.
constexpr double kMostCpuFlops = 5e10;

struct ExecutorRun {
  std::string file;
  std::string device_text;
  LoadedModel model;
  std::optional<cost::DeviceSpec> gpu{};   ///< GPU that the plan file names, for its peak.
  std::optional<cost::Machine> machine{};  ///< None on the CPU, or if the file names no GPU.
  ir::ParallelPlan plan;
  exec::Execution execution;
  exec::DeviceChoice device;
};

/// "cpu", "cuda" or "cuda:1".
Result<exec::DeviceChoice> read_device(const std::string& text) {
  if (text == "cpu") {
    return exec::DeviceChoice{.backend = &exec::cpu_backend()};
  }
  if (!text.starts_with("cuda")) {
    return Error::invalid_argument("device", text, "cpu, cuda or cuda:N");
  }
  return read_cuda_device(text);
}

/// MODEL and plan of the file.
Result<ExecutorRun> read_plan_of(const Arguments& arguments) {
  ExecutorRun run;
  const std::vector<std::string>& given = arguments.positionals();
  if (given.size() != 1) {
    return Error::invalid_argument("PLAN.json", given.empty() ? "nothing" : ir::join(given),
                                   "one plan file, as headroom plan --output writes it",
                                   "headroom validate PLAN.json --device cpu");
  }
  run.file = given.front();
  Arguments asked;
  asked.set("plan", run.file);
  for (const std::string_view option : {"gpu", "config-dir"}) {
    if (const auto value = arguments.value(option)) {
      asked.set(option, *value);
    }
  }
  Result<Arguments> filed = with_plan_file(fit_command().verb, std::move(asked));
  if (!filed) {
    return std::move(filed).error();
  }
  if (filed->positionals().empty()) {
    return Error::invalid_input(run.file, "/model", "no model", "the name or the path of a model",
                                "add \"model\", or write the file with headroom plan --output");
  }
  Result<PlanQuestion> question = read_plan_question(*filed);
  if (!question) {
    return std::move(question).error();
  }
  run.model = std::move(question->model);
  run.plan = std::move(question->request.plan);
  if (filed->has("gpu")) {
    Result<cost::DeviceSpec> gpu = read_gpu(*filed);
    if (!gpu) {
      return std::move(gpu).error();
    }
    run.gpu = std::move(gpu).value();
  }
  return run;
}

Status refuse_large(const exec::Execution& execution) {
  const std::int64_t tokens =
      execution.micro_batch * execution.sequence * execution.accumulation * execution.steps;
  const double flops = cost::model_flops_per_token(execution.model, execution.sequence) *
                       static_cast<double>(tokens) / execution.division.tensor /
                       execution.division.pipeline;
  if (flops > kMostCpuFlops) {
    return Error::invalid_argument(
        "device", "cpu, for " + three_digits(flops / 1e12) + " TFLOP",
        "a small plan, up to " + three_digits(kMostCpuFlops / 1e12) + " TFLOP",
        "use a GPU (--device cuda), or a plan with a smaller model, sequence or batch");
  }
  return ok();
}

Result<ExecutorRun> read_executor_run(const Arguments& arguments) {
  Result<ExecutorRun> run = read_plan_of(arguments);
  if (!run) {
    return run;
  }
  if (Status accepted = ir::check_plan(run->model.spec, run->plan); !accepted) {
    return std::move(accepted).error();
  }
  Result<exec::Execution> execution = exec::execution_of(run->model.spec, run->plan);
  if (!execution) {
    return std::move(execution).error();
  }
  run->execution = std::move(execution).value();
  if (!run->plan.rank) {
    run->execution.division.rank = exec::binding_rank(run->execution);
  }
  if (arguments.has("tf32")) {
    run->execution.types.math = HEADROOM_MATH_TF32;
  }
  const Result<Bytes> budget = read_budget(arguments);
  if (!budget) {
    return budget.error();
  }
  run->device_text = arguments.value("device").value_or("cuda");
  if (run->device_text == "cpu") {
    if (Status small = refuse_large(run->execution); !small) {
      return std::move(small).error();
    }
  }
  Result<exec::DeviceChoice> device = read_device(run->device_text);
  if (!device) {
    return std::move(device).error();
  }
  run->device = std::move(device).value();
  if (*budget > Bytes{0}) {
    run->device.budget = *budget;
  }
  if (run->gpu && run->device_text != "cpu") {
    const Result<ConfigDir> folder = config_dir_of(arguments);
    Result<cost::Machine> machine = folder ? cost::load_machine(folder->path, *run->gpu)
                                           : Result<cost::Machine>(folder.error());
    if (!machine) {
      return std::move(machine).error();
    }
    run->machine = std::move(machine).value();
  }
  return run;
}

check::PhasePeaks peaks_of(const std::vector<cost::PhaseMemory>& phases) {
  check::PhasePeaks peaks;
  for (const cost::PhaseMemory& phase : phases) {
    peaks.allocated = std::max(peaks.allocated, phase.peak_allocated);
    peaks.reserved = std::max(peaks.reserved, phase.peak_reserved);
  }
  return peaks;
}

/// The median of the steps after the first one, which warms up.
std::optional<double> step_seconds_of(std::vector<double> seconds) {
  if (seconds.size() > 1) {
    seconds.erase(seconds.begin());
  }
  if (seconds.empty()) {
    return std::nullopt;
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

/// The datasheet's dense peak of the type in which the layers' products run.
std::optional<FlopsPerSecond> peak_of(const cost::DeviceSpec& gpu, const exec::Types& types) {
  return types.fp8_products                  ? gpu.fp8
         : types.compute != ir::DType::kFp32 ? gpu.half
                                             : std::optional<FlopsPerSecond>(gpu.fp32);
}

ExecutedRun executed_run(const ExecutorRun& run, const exec::Confirmation& confirmation,
                         std::optional<double> step_seconds) {
  const exec::Execution& execution = run.execution;
  ExecutedRun executed{.losses = confirmation.measured.losses,
                       .predicted_driver = peaks_of(confirmation.predicted.phases).reserved,
                       .measured_driver = confirmation.measured.driver};
  if (confirmation.measured.device.can_compute == 0) {
    executed.losses.clear();
  }
  if (step_seconds && *step_seconds > 0) {
    const auto tokens =
        static_cast<double>(execution.micro_batch * execution.sequence * execution.accumulation);
    executed.tokens_per_second = tokens / *step_seconds;
    const std::optional<FlopsPerSecond> peak =
        !run.gpu || run.device_text == "cpu" ? std::nullopt : peak_of(*run.gpu, execution.types);
    if (peak) {
      // A shadow rank computes its share of the layers.
      executed.mfu = *executed.tokens_per_second *
                     cost::model_flops_per_token(execution.model, execution.sequence) /
                     execution.division.tensor / execution.division.pipeline / peak->value();
    }
  }
  return executed;
}

ValidationAnswer answer_of(const ExecutorRun& run, const exec::Confirmation& confirmation) {
  const exec::RankRun& measured = confirmation.measured;
  std::vector<check::ObservedPhase> observed;
  for (const cost::PhaseMemory& phase : measured.phases) {
    observed.push_back(
        {.name = phase.name,
         .peaks = {.allocated = phase.peak_allocated, .reserved = phase.peak_reserved}});
  }
  const bool predicted_fits = !confirmation.predicted.out_of_memory;
  // A stand-in takes no time for its kernels.
  const std::optional<double> seconds =
      measured.device.can_compute == 0 ? std::nullopt : step_seconds_of(measured.seconds);
  ValidationAnswer answer{
      .plan_file = run.file,
      .model = run.model.label,
      .setting = ir::runtime_of(run.plan).describe(run.plan),
      .with = "executor",
      .device = run.device_text,
      .used = std::string(measured.device.name) +
              (measured.device.libraries[0] != '\0' ? ", " + std::string(measured.device.libraries)
                                                    : ""),
      .gpus = 1,
      .rank = run.execution.division.rank,
      .tolerance = 0,
      .predicted = {.verdict = predicted_fits ? "fits" : "does not fit",
                    .margin = confirmation.capacity - confirmation.needed,
                    .peaks = peaks_of(confirmation.predicted.phases),
                    .step_seconds = {}},
      .measured = {.verdict = measured.out_of_memory ? "does not fit" : "fits",
                   .margin = {},
                   .peaks = peaks_of(measured.phases),
                   .step_seconds = seconds},
      .phases = check::compare_phases(confirmation.predicted.phases, observed,
                                      run.execution.accumulation),
      .versions = {},
      .failure = {},
      .snapshot = {},
      .run = executed_run(run, confirmation, seconds),
      .notes = {}};
  if (confirmation.predicted.out_of_memory) {
    answer.predicted.missing_at_failure =
        missing_at(*confirmation.predicted.out_of_memory, confirmation.capacity);
  }
  if (measured.out_of_memory) {
    answer.measured.missing_at_failure = missing_at(*measured.out_of_memory, confirmation.capacity);
  }
  answer.measured.margin = measured.out_of_memory
                               ? confirmation.capacity - measured.out_of_memory->reserved -
                                     measured.out_of_memory->requested
                               : confirmation.capacity - answer.measured.peaks.reserved;
  return answer;
}

/// Whether the device lost as much memory as was predicted.
bool driver_agrees(const ValidationAnswer& answer) {
  return !answer.both_fit() ||
         check::relative_error(answer.run->predicted_driver, answer.run->measured_driver) <=
             kDriverTolerance;
}

Result<ExitCode> answer_largest(const ExecutorRun& run, const Context& context) {
  const Result<exec::LargestBatch> largest = exec::largest_batch(run.execution, run.device);
  if (!largest) {
    return largest.error();
  }
  const bool same = largest->predicted == largest->measured;
  if (context.json) {
    ir::JsonFields document;
    document.add("schema_version", 1);
    document.add("answer", same ? "agrees" : "differs");
    document.add("predicted_micro_batch", largest->predicted);
    document.add("measured_micro_batch", largest->measured);
    document.add("largest_micro_batch_tried", largest->limit);
    context.out << to_pretty_json(std::move(document).finish()) << "\n";
  } else {
    context.out << "largest micro-batch on " << run.device_text << ": predicted "
                << largest->predicted << ", measured " << largest->measured
                << (largest->measured == 0 ? " (not even one sequence fits)" : "") << "\n";
    if (std::max(largest->predicted, largest->measured) == largest->limit) {
      context.out << "note: the search ends at " << largest->limit
                  << " sequences, the most that the executor runs in a micro-batch\n";
    }
  }
  return same ? ExitCode::kYes : ExitCode::kNo;
}

Result<ExitCode> run_executor(const Arguments& arguments, const Context& context) {
  if (Status safe = check_output(arguments); !safe) {
    return std::move(safe).error();
  }
  const Result<ExecutorRun> run = read_executor_run(arguments);
  if (!run) {
    return run.error();
  }
  std::vector<std::string> notes = exec::execution_notes(run->model.spec, run->plan);
  notes.push_back("the prediction is that of headroom's own executor; headroom fit predicts what " +
                  run->plan.runtime + " takes for this plan");
  add_notes(context, notes);
  if (arguments.has("max-batch")) {
    if (run->device_text == "cpu" && !arguments.has("budget")) {
      return Error::invalid_argument("max-batch", "on the CPU without --budget",
                                     "a budget that a small batch fills",
                                     "add --budget, such as --budget 100MiB");
    }
    return answer_largest(*run, context);
  }
  const Result<exec::Confirmation> confirmation = exec::confirm(run->execution, run->device);
  if (!confirmation) {
    return confirmation.error();
  }
  ValidationAnswer answer = answer_of(*run, *confirmation);
  if (run->machine) {
    answer.predicted.step_seconds =
        exec::predicted_step(run->execution, run->plan, *run->machine).value();
  }
  answer.notes = context.notes->lines;
  const bool agrees = answer.agrees() && driver_agrees(answer);
  ir::JsonFields summary;
  summary.add("schema_version", 1);
  summary.add("answer", agrees ? "agrees" : "differs");
  const bool json = context.json || arguments.has("output");
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
  return agrees ? ExitCode::kYes : ExitCode::kNo;
}

}  // namespace

OptionSpec executor_device_option() {
  return {.name = "device",
          .value = "DEVICE",
          .fallback = "cuda",
          .help = "where the executor runs a plan file: cuda, cuda:N, or cpu for small plans"};
}

Command validate_executor_command() {
  std::vector<OptionSpec> options = {
      executor_device_option(),
      {"tf32", "", "", "products of fp32 operands in TF32"},
      {"max-batch", "", "", "grow the micro-batch until it does not fit, and compare"}};
  options.insert(options.end(), device_options().begin(), device_options().end());
  options.push_back({"output", "FILE", "", "also write the JSON document to this file"});
  return {.verb = {.name = "validate",
                   .summary = "Runs a plan, and compares its memory with the prediction",
                   .positionals = "PLAN.json --device DEVICE",
                   .detail = "PLAN.json is what headroom plan --output or any verb's --json "
                             "writes. Its model is built with random weights and trained on random "
                             "tokens by headroom's own executor. On one device, a plan for several "
                             "runs as one of its ranks, with copies in place of communication. The "
                             "exit code is 0 if allocated and reserved memory are as predicted, "
                             "to the byte, and the driver's within 0.5 %. headroom validate --with "
                             "dryrun --help lists the options of runs with PyTorch.",
                   .options = std::move(options),
                   .example = "validate plan.json --device cpu"},
          .run = run_executor,
          .when = {"device", "max-batch", "tf32", "output", "budget", "gpu"},
          .unless_word = "measured"};
}

}  // namespace headroom::cli
