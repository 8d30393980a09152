#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/verbs.h"
#include "cli/judged_question.h"
#include "cli/model_argument.h"
#include "cli/plan_file.h"
#include "cli/question.h"
#include "cli/report/snapshot_answer.h"
#include "model_ir/base/file.h"
#include "validators/snapshot/nsight.h"
#include "validators/snapshot/snapshot_reader.h"

namespace headroom::cli {
namespace {

/// Larger files take more than some 10 GiB of memory to read.
constexpr std::int64_t kSnapshotLimit = 2 * kGiB;

std::string shown_name(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

Result<std::string> load_bytes(const std::string& path) {
  return read_file(path == "-" ? "/dev/stdin" : path, kSnapshotLimit);
}

/// One of several snapshots. Logs and statistics are refused: they have no stacks to compare.
Result<check::Snapshot> load_snapshot(const std::string& path) {
  Result<std::string> bytes = load_bytes(path);
  if (!bytes) {
    return std::move(bytes).error();
  }
  if (check::is_sqlite(*bytes) || check::is_gpu_log(*bytes) || check::is_allocator_stats(*bytes)) {
    return Error::invalid_argument(
        "FILE", shown_name(path) + ", a log or statistics, among several files",
        "memory snapshots, whose blocks are compared by stack", "give this file alone");
  }
  return check::read_snapshot(std::move(bytes).value(), shown_name(path));
}

Result<check::StackRules> load_rules(const Arguments& arguments) {
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  return check::read_stack_rules(folder->path + "/snapshot/stacks.json");
}

/// Predicts the run that the plan file describes.
Result<cost::StepEstimate> predict(const Arguments& arguments, const std::string& plan,
                                   const Context& context) {
  const VerbSpec verb = fit_command().verb;
  std::vector<std::string> words = {"--plan", plan};
  for (const char* const option : {"gpu", "config-dir"}) {
    if (const auto value = arguments.value(option)) {
      words.insert(words.end(), {"--" + std::string(option), *value});
    }
  }
  Result<Arguments> asked = parse_arguments(verb, words);
  if (asked) {
    asked = with_plan_file(verb, std::move(asked).value());
  }
  if (!asked) {
    return std::move(asked).error();
  }
  Result<Question> question = read_question(*asked);
  if (!question) {
    return std::move(question).error();
  }
  add_notes(context, question->model, question->request);
  Result<JudgedQuestion> judged =
      judge_question(*asked, std::move(question).value(), UsualRouting::kEven);
  if (!judged) {
    return std::move(judged).error();
  }
  return std::move(judged->estimate);
}

/// What a reader of the answer should know about how the snapshot was recorded.
std::vector<std::string> recording_notes(const check::Snapshot& snapshot) {
  std::vector<std::string> notes;
  if (snapshot.traces.empty()) {
    notes.emplace_back(
        "the snapshot has no history: torch.cuda.memory._record_memory_history() at the program's "
        "start records one");
  }
  if (snapshot.stacks() == 1 && !snapshot.segments.empty()) {
    notes.emplace_back("no stack was recorded, so nothing says what the blocks are for");
  }
  for (const std::string& action : snapshot.unknown_actions) {
    notes.push_back("entries of the action " + printable(action) + " are left out: not known");
  }
  return notes;
}

Result<ExitCode> answer_growth(const Arguments& arguments, const check::StackRules& rules,
                               const Context& context) {
  std::vector<check::Snapshot> snapshots;
  for (const std::string& path : arguments.positionals()) {
    Result<check::Snapshot> snapshot = load_snapshot(path);
    if (!snapshot) {
      return std::move(snapshot).error();
    }
    snapshots.push_back(std::move(snapshot).value());
    snapshots.back().traces.clear();  // Growth between snapshots is read from their segments.
  }
  std::vector<check::StackSorter> sorters;
  sorters.reserve(snapshots.size());
  std::vector<check::NamedSnapshot> named;
  for (std::size_t at = 0; at < snapshots.size(); ++at) {
    sorters.emplace_back(rules, snapshots[at]);
    named.push_back({.name = arguments.positionals()[at],
                     .snapshot = &snapshots[at],
                     .sorter = &sorters.back()});
  }
  const GrowthAnswer answer{.growth = check::growth_between(named), .notes = context.notes->lines};
  context.out << (context.json ? growth_json(answer) : growth_text(answer, context.terminal));
  return ExitCode::kYes;
}

/// Refuses --against for a file without blocks.
Status check_blocks(const Arguments& arguments, const std::string& name) {
  if (!arguments.has("against")) {
    return ok();
  }
  return Error::invalid_argument("against", name + ", which has sums and no blocks",
                                 "a memory snapshot",
                                 "call torch.cuda.memory._dump_snapshot(FILE) in the run");
}

Result<ExitCode> answer_gpu_log(const Arguments& arguments, Result<check::GpuLog> log,
                                const Context& context) {
  const std::string name = shown_name(arguments.positionals().front());
  if (Status able = check_blocks(arguments, name); !able) {
    return std::move(able).error();
  }
  if (!log) {
    return std::move(log).error();
  }
  if (log->skipped > 0) {
    add_notes(context, {"rows that are cut or have no figure of used memory are left out: " +
                        std::to_string(log->skipped)});
  }
  const GpuLogAnswer answer{
      .file = name, .log = std::move(log).value(), .notes = context.notes->lines};
  context.out << (context.json ? gpu_log_json(answer) : gpu_log_text(answer, context.terminal));
  return ExitCode::kYes;
}

Result<ExitCode> answer_stats(const Arguments& arguments, const std::string& text,
                              const Context& context) {
  const std::string name = shown_name(arguments.positionals().front());
  if (Status able = check_blocks(arguments, name); !able) {
    return std::move(able).error();
  }
  Result<std::vector<check::AllocatorStats>> stats = check::read_allocator_stats(text, name);
  if (!stats) {
    return std::move(stats).error();
  }
  const StatsAnswer answer{
      .file = name, .stats = std::move(stats).value(), .notes = context.notes->lines};
  context.out << (context.json ? stats_json(answer) : stats_text(answer, context.terminal));
  return ExitCode::kYes;
}

Result<ExitCode> answer_snapshot(const Arguments& arguments, const check::StackRules& rules,
                                 const Context& context) {
  const std::string name = shown_name(arguments.positionals().front());
  Result<std::string> bytes = load_bytes(arguments.positionals().front());
  if (!bytes) {
    return std::move(bytes).error();
  }
  if (check::is_sqlite(*bytes)) {
    return answer_gpu_log(arguments, check::read_nsight(std::move(bytes).value(), name), context);
  }
  if (check::is_gpu_log(*bytes)) {
    return answer_gpu_log(arguments, check::read_gpu_log(*bytes, name), context);
  }
  if (check::is_allocator_stats(*bytes)) {
    return answer_stats(arguments, *bytes, context);
  }
  Result<check::Snapshot> snapshot = check::read_snapshot(std::move(bytes).value(), name);
  if (!snapshot) {
    return std::move(snapshot).error();
  }
  SnapshotAnswer answer{.file = name,
                        .against = arguments.value("against").value_or(""),
                        .snapshot = std::move(snapshot).value(),
                        .devices = {},
                        .notes = {}};
  const check::StackSorter sorter(rules, answer.snapshot);
  add_notes(context, recording_notes(answer.snapshot));
  for (const std::int64_t device : check::devices_of(answer.snapshot)) {
    check::DeviceSummary summary = check::summary_of(answer.snapshot, sorter, device);
    check::Growth leaks = check::growth_within(answer.snapshot, sorter, summary.history);
    answer.devices.push_back(
        {.summary = std::move(summary), .leaks = std::move(leaks), .comparison = {}});
  }
  if (!answer.against.empty() && !answer.devices.empty()) {
    const Result<cost::StepEstimate> estimate = predict(arguments, answer.against, context);
    if (!estimate) {
      return estimate.error();
    }
    answer.devices.front().comparison =
        check::compare_peaks(*estimate, answer.devices.front().summary, sorter);
  }
  answer.notes = context.notes->lines;
  context.out << (context.json ? snapshot_json(answer, sorter)
                               : snapshot_text(answer, sorter, context.terminal));
  return ExitCode::kYes;
}

Result<ExitCode> run_snapshot(const Arguments& arguments, const Context& context) {
  if (arguments.positionals().empty()) {
    return Error::invalid_argument(
        "FILE", "nothing", "a snapshot, which torch.cuda.memory._dump_snapshot(FILE) writes",
        "call torch.cuda.memory._record_memory_history() at the program's start first");
  }
  const bool several = arguments.positionals().size() > 1;
  if (several && arguments.has("against")) {
    return Error::invalid_argument("against", "several snapshots", "one snapshot and one plan",
                                   "leave out the other snapshots");
  }
  const Result<check::StackRules> rules = load_rules(arguments);
  if (!rules) {
    return rules.error();
  }
  return several ? answer_growth(arguments, *rules, context)
                 : answer_snapshot(arguments, *rules, context);
}

}  // namespace

Command snapshot_command() {
  std::vector<OptionSpec> options = {
      {.name = "against",
       .value = "PLAN",
       .fallback = "",
       .help = "compare the peak with the one that this plan file predicts, by category and size"},
      {.name = "gpu",
       .value = "GPU",
       .fallback = "that of the plan file",
       .help = "the GPU of the prediction of --against"}};
  return {.verb = {.name = "snapshot",
                   .summary = "Reads PyTorch's memory snapshots: the peak, its blocks, leaks",
                   .positionals = "FILE...",
                   .detail = "FILE is what torch.cuda.memory._dump_snapshot(FILE) writes; - is "
                             "standard input. Nothing in it is executed. With several files, the "
                             "answer is what grows from each to the next, by stack. A log with "
                             "torch.cuda.memory_summary(), the JSON of memory_stats(), what "
                             "nvidia-smi prints and SQLite exports of Nsight Systems are read, "
                             "too.",
                   .options = std::move(options),
                   .example = "snapshot dump_snapshot.pickle"},
          .run = run_snapshot};
}

}  // namespace headroom::cli
