#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cli/allocator_options.h"
#include "cli/commands/verbs.h"
#include "cli/output.h"
#include "cli/question.h"
#include "cli/report/dryrun_answer.h"
#include "cli/report/program_answer.h"
#include "cli/scalars.h"
#include "cli/shell_words.h"
#include "cli/time_options.h"
#include "runtimes/interface/common_options.h"
#include "validators/dryrun/interpreter.h"
#include "validators/dryrun/launcher.h"

namespace headroom::cli {
namespace {

constexpr std::int64_t kMostWorld = std::int64_t{1} << 20;
constexpr std::int64_t kMostDrySteps = 1'000'000;
constexpr std::int64_t kMostLag = 1'000'000;

/// A whole number; `usual` if the option is not given.
Result<std::int64_t> whole_of(const Arguments& arguments, std::string_view option,
                              std::int64_t usual, ir::IntegerRange range) {
  const std::optional<std::string> text = arguments.value(option);
  return text ? parse_whole(option, *text, range.least, range.greatest)
              : Result<std::int64_t>(usual);
}

Result<check::DryRunWorld> read_world(const Arguments& arguments, int per_node) {
  const bool real = arguments.has("all-ranks");
  const Result<std::int64_t> ranks =
      whole_of(arguments, "gpus", real ? per_node : 1, {.least = 1, .greatest = kMostWorld});
  if (!ranks) {
    return ranks.error();
  }
  if (real && arguments.has("rank")) {
    return Error::invalid_argument("rank", "--all-ranks as well",
                                   "one of them: --all-ranks starts every rank");
  }
  if (arguments.has("rank") && !arguments.has("gpus")) {
    return Error::invalid_argument("rank", *arguments.value("rank") + " without --gpus",
                                   "--gpus N as well: the number of all ranks",
                                   "add --gpus with the GPUs of the whole run");
  }
  const Result<std::int64_t> rank =
      whole_of(arguments, "rank", 0, {.least = 0, .greatest = *ranks - 1});
  if (!rank) {
    return rank.error();
  }
  return check::DryRunWorld{.ranks = *ranks, .rank = *rank, .real = real};
}

Result<std::string> read_routing(const Arguments& arguments) {
  const std::string text = arguments.value("routing").value_or("uniform");
  constexpr std::string_view kSkewed = "skewed:";
  if (text == "uniform") {
    return text;
  }
  if (text.starts_with(kSkewed) &&
      parse_real("routing", std::string_view(text).substr(kSkewed.size()), 0, 1)) {
    return text;
  }
  return Error::invalid_argument("routing", text,
                                 "uniform, or skewed:F with F from 0 to 1, such as skewed:0.3");
}

/// The file of an option with its whole path, so that the program can change its folder.
Result<std::string> read_place(const Arguments& arguments, std::string_view option) {
  const std::optional<std::string> path = arguments.value(option);
  if (!path) {
    return std::string();
  }
  std::error_code fault;
  const std::filesystem::path whole = std::filesystem::absolute(*path, fault);
  if (path->empty() || fault || !std::filesystem::is_directory(whole.parent_path(), fault)) {
    return Error::invalid_argument(option, *path, "a file in a folder that exists");
  }
  return whole.string();
}

Result<check::DryRunRequest> read_request(const Arguments& arguments, const Context& context) {
  const Result<cost::DeviceSpec> device = read_gpu(arguments);
  if (!device) {
    return device.error();
  }
  const Result<Bytes> budget = read_budget(arguments);
  if (!budget) {
    return budget.error();
  }
  const Result<check::DryRunWorld> world =
      read_world(arguments, device->host ? device->host->devices : 8);
  if (!world) {
    return world.error();
  }
  Result<check::DryRunDevice> profile = check::profile_of(*device, *budget, *world);
  if (!profile) {
    return std::move(profile).error();
  }
  const Result<std::int64_t> steps =
      whole_of(arguments, "steps", 3, {.least = 0, .greatest = kMostDrySteps});
  const Result<std::int64_t> lag =
      whole_of(arguments, "lag", 0, {.least = 0, .greatest = kMostLag});
  if (!steps || !lag) {
    return steps ? lag.error() : steps.error();
  }
  Result<std::string> routing = read_routing(arguments);
  Result<std::string> snapshot = read_place(arguments, "snapshot");
  if (!routing || !snapshot) {
    return routing ? std::move(snapshot).error() : std::move(routing).error();
  }
  add_notes(context, asked_device_notes(arguments, *device, *budget));
  return check::DryRunRequest{.command = arguments.command(),
                              .device = std::move(profile).value(),
                              .world = *world,
                              .steps = *steps,
                              .routing = std::move(routing).value(),
                              .lag = *lag,
                              .snapshot = std::move(snapshot).value(),
                              .record = arguments.has("record"),
                              .output_to_error = arguments.has("json")};
}

/// Writes the file of --record, and says how its replay compares with what PyTorch reported.
///
/// Errors:  kEnvironment with the reason if the program could not be recorded whole, and those of
///          `check::write_recorded_program`.
Status write_record(const std::string& path, const DryRunAnswer& answer, const Context& context) {
  if (!answer.end.history) {
    return Error::environment(path, "nothing was recorded: " + answer.end.unrecorded,
                              "every event of the program");
  }
  const check::RecordedProgram recorded = check::recorded_of(answer.request, answer.end);
  if (Status written = check::write_recorded_program(path, recorded); !written) {
    return written;
  }
  const Result<ir::AllocatorSettings> settings =
      parse_allocator_settings(recorded.history.alloc_conf, check::standin_settings());
  if (!settings) {
    return settings.error();
  }
  const std::vector<check::ReplayDifference> differences = check::replay_differences(
      recorded,
      cost::replay(recorded.history.program, *settings, check::recorded_memory(recorded)));
  if (!differences.empty()) {
    add_notes(context, {replay_sentence(recorded, differences)});
  }
  return ok();
}

/// Prints which commands to run next.
std::string next_of(const DryRunAnswer& answer, const std::string& record) {
  if (!record.empty() && answer.end.history) {
    return "headroom fit --program " + shell_word(record);
  }
  const std::string& snapshot = answer.request.snapshot;
  std::error_code fault;
  if (!snapshot.empty() && std::filesystem::exists(snapshot, fault)) {
    return "headroom snapshot " + shell_word(snapshot);
  }
  return answer.prediction ? answer.prediction->command : std::string();
}

/// Adds what headroom predicts for the program, or why it does not.
void add_prediction(const Arguments& arguments, DryRunAnswer& answer) {
  Result<DryRunPrediction> prediction = predict_program(arguments, answer.request, answer.report());
  if (prediction) {
    answer.prediction = std::move(prediction).value();
  } else {
    answer.unpredicted = prediction.error().got;
  }
}

ExitCode code_of(const DryRunAnswer& answer) {
  if (answer.end.interrupted) {
    return exit_code_after(answer.end.told);
  }
  switch (answer.judged.verdict) {
    case check::DryRunVerdict::kFits:
    case check::DryRunVerdict::kTight:
      return ExitCode::kYes;
    case check::DryRunVerdict::kDoesNotFit:
      return ExitCode::kNo;
    case check::DryRunVerdict::kUnknown:
      break;
  }
  return answer.end.signal != 0 ? ExitCode::kEnvironment : ExitCode::kBadInput;
}

Result<ExitCode> put_answer(const Arguments& arguments, const Context& context,
                            const DryRunAnswer& answer) {
  ir::JsonFields summary;
  summary.add("schema_version", 1);
  summary.add("verdict", name_of(answer.judged.verdict));
  const bool json = context.json || arguments.has("output");
  Result<ExitCode> written = put_out(
      arguments, context, json ? dryrun_json(answer) : dryrun_text(answer, context.terminal),
      std::move(summary), json);
  if (!written) {
    return written;
  }
  if (arguments.has("output") && !context.json) {
    context.out << dryrun_text(answer, context.terminal);
  }
  return code_of(answer);
}

Result<ExitCode> run_dryrun(const Arguments& arguments, const Context& context) {
  if (!arguments.positionals().empty()) {
    return Error::invalid_argument("COMMAND", arguments.positionals().front() + " before --",
                                   "options only before --",
                                   "put the whole command behind -- and options before it");
  }
  Result<check::DryRunRequest> request = read_request(arguments, context);
  if (!request) {
    return std::move(request).error();
  }
  const Result<std::string> record = read_place(arguments, "record");
  if (!record) {
    return record.error();
  }
  // A plan that cannot be read is said before the program runs.
  std::optional<DryRunPrediction> given;
  if (arguments.has("against")) {
    Result<DryRunPrediction> plan = predict_plan(arguments);
    if (!plan) {
      return std::move(plan).error();
    }
    given = std::move(plan).value();
  }
  const Result<check::DryRunFiles> files = check::find_dry_run_files(check::dry_run_places());
  if (!files) {
    return files.error();
  }
  if (Status able = check::check_interpreter(request->command); !able) {
    return std::move(able).error();
  }
  Result<check::DryRunEnd> end = check::run_dry(*request, *files);
  if (!end) {
    return std::move(end).error();
  }
  const auto measured = [](const check::DryRunReport& report) { return !report.phases.empty(); };
  if (std::ranges::none_of(end->reports, measured)) {
    if (end->interrupted) {
      context.err << "error: interrupted before the program reported anything\n";
      return exit_code_after(end->told);
    }
    return check::no_report(request->command, *end);
  }
  const std::size_t binding = check::binding_report(end->reports);
  DryRunAnswer answer{.request = std::move(request).value(),
                      .end = std::move(end).value(),
                      .binding = binding,
                      .judged = {},
                      .prediction = std::move(given),
                      .unpredicted = {},
                      .next = {},
                      .notes = {}};
  answer.judged = check::judge_dry_run(answer.request.device, answer.end, answer.report());
  if (!answer.prediction) {
    add_prediction(arguments, answer);
  }
  answer.next = next_of(answer, *record);
  const Status recorded = record->empty() ? ok() : write_record(*record, answer, context);
  if (!recorded) {
    add_notes(context, {recorded.error().file + ": " + recorded.error().got});
  }
  answer.notes = context.notes->lines;
  const Result<ExitCode> shown = put_answer(arguments, context, answer);
  return shown && !recorded ? exit_code_of(recorded.error().code) : shown;
}

std::vector<OptionSpec> dryrun_options() {
  std::vector<OptionSpec> options(device_options().begin(), device_options().end());
  const std::vector<OptionSpec> own = {
      {"node", "NAME", "one of the catalogue with this GPU",
       "machine that holds the GPUs (headroom catalog nodes lists them)"},
      {"gpus", "N", "1", "GPUs of the run, one rank each; the program runs as one of N ranks"},
      {"rank", "R", "0", "rank that the program runs as"},
      {"all-ranks", "", "",
       "start the command as it is, with as many processes as it makes; --gpus is then the number "
       "of GPUs that they see"},
      {"steps", "N", "3",
       "optimizer steps after which the program is stopped; 0: it runs to its end"},
      {"routing", "HOW", "uniform",
       "how many tokens each expert gets: uniform, or skewed:F (the share F, 0 to 1, goes to the "
       "first expert, the rest evenly to all)"},
      {"lag", "N", "0",
       "launches by which the GPU lags behind the host, so that memory used on a second stream "
       "is free later"},
      {"snapshot", "FILE", "",
       "file for PyTorch's memory snapshot, written at the end or when memory runs out"},
      {"record", "FILE", "",
       "file for everything that PyTorch's allocator was asked for; headroom fit --program FILE "
       "judges it for other GPUs, budgets and settings without running it again"}};
  options.insert(options.end(), own.begin(), own.end());
  options.push_back(against_option());
  options.push_back({"output", "FILE", "", "also write the JSON document to this file"});
  return options;
}

}  // namespace

Command dryrun_command() {
  return {
      .verb =
          {.name = "dryrun",
           .summary = "Runs your own training program on a GPU that computes nothing, and "
                      "says what its framework allocates",
           .positionals = "-- COMMAND...",
           .detail =
               "COMMAND is the usual command that starts your program: python train.py, torchrun, "
               "accelerate launch, deepspeed. No GPU is needed. Stand-ins for "
               "CUDA's libraries are loaded into the program alone; they count "
               "device memory and compute nothing, so that losses are meaningless.",
           .options = dryrun_options(),
           .example = "dryrun --gpu h100-80gb -- python train.py",
           .takes_command = true},
      .run = run_dryrun};
}

}  // namespace headroom::cli
