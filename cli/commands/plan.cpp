#include "cli/commands/verbs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <ostream>
#include <span>
#include <string_view>
#include <utility>

#include "cli/host_options.h"
#include "cli/output.h"
#include "cli/plan_choices.h"
#include "cli/plan_file.h"
#include "cli/plan_search.h"
#include "cli/question.h"
#include "cli/report/host_text.h"
#include "cli/report/plan_answer.h"
#include "cli/report/time_report.h"
#include "cli/report/why_text.h"
#include "cli/scalars.h"
#include "cli/search_clock.h"
#include "cli/time_options.h"
#include "costmodel/hardware/catalogue.h"
#include "model_ir/base/counted.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "planner/explain/explain.h"
#include "planner/space/all_axes.h"
#include "planner/space/framework_search.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // A signal handler may write it.

/// While an instance exists, the first Ctrl-C ends the search instead of the program.
class StopOnInterrupt {
 public:
  StopOnInterrupt() {
    stop_asked = false;
    before_ = std::signal(SIGINT, [](int) { stop_asked = true; });
  }
  ~StopOnInterrupt() { static_cast<void>(std::signal(SIGINT, before_)); }
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

 private:
  void (*before_)(int) = SIG_DFL;
};

using Clock = std::chrono::steady_clock;

/// A progress line on a terminal, which is redrawn at most ten times per second.
class ProgressLine {
 public:
  /// Keeps references to `err` and `clock`.
  ProgressLine(std::ostream& err, bool shown, plan::Objective objective, const SearchClock& clock)
      : err_(err), shown_(shown), objective_(objective), clock_(clock), begin_(Clock::now()) {}
  ~ProgressLine() {
    if (drawn_) {
      err_ << "\r\033[K";
    }
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void draw(const plan::SearchProgress& now) {
    constexpr std::chrono::milliseconds kPause{100};
    const Clock::time_point time = Clock::now();
    if (!shown_ || time - last_ < kPause) {
      return;
    }
    last_ = time;
    drawn_ = true;
    if (now.listing) {
      err_ << "\r\033[K"
           << "listing the groups of plans, " << now.cells << " so far" << left_text()
           << std::flush;
      return;
    }
    const double elapsed = std::chrono::duration<double>(time - begin_).count();
    err_ << "\r\033[K" << now.cells_done << " of " << now.cells << " groups, "
         << static_cast<std::int64_t>(static_cast<double>(now.evaluated) / elapsed)
         << " plans/s, best " << (now.best_seconds > 0 ? duration_text(now.best_seconds) : "none")
         << (now.front > 0 ? ", front of " + std::to_string(now.front)
                           : ", bound " + bound_text(objective_, now.bound) + gap_text(now))
         << left_text() << std::flush;
  }

  void say(std::string_view what) {
    if (shown_) {
      drawn_ = true;
      err_ << "\r\033[K" << what << std::flush;
    }
  }

 private:
  static std::string gap_text(const plan::SearchProgress& now) {
    return now.best_seconds > 0 ? ", gap " + std::to_string(std::llround(100 * now.gap)) + " %"
                                : "";
  }

  [[nodiscard]] std::string left_text() const {
    const std::optional<double> left = clock_.left();
    return left ? ", " + std::to_string(std::llround(std::max(0.0, *left))) + " s left" : "";
  }

  std::ostream& err_;
  bool shown_;
  plan::Objective objective_;
  const SearchClock& clock_;
  bool drawn_ = false;
  Clock::time_point begin_;
  Clock::time_point last_{};
};

/// The share of the time that the search itself may take: the rest is for what is said about its
/// answer, the comparison of the frameworks above all.
constexpr double kSearchShare = 0.75;

ExitCode exit_code_of_search(const plan::PlanResult& result) {
  if (stop_asked) {
    return ExitCode::kInterrupted;
  }
  return result.best ? ExitCode::kYes : ExitCode::kNo;
}

/// The answers to `--why`, one per line. Under `explain`, also those for every alternative.
Result<std::string> explanation(const plan::SearchQuestion& question,
                                const plan::PlanResult& result,
                                const std::vector<plan::Alternative>& asked,
                                plan::SearchRecords& records) {
  std::string text;
  plan::WhyNot before;
  for (const plan::Alternative& alternative : asked) {
    const Result<plan::WhyNot> why =
        plan::why_not(question, result, alternative.axis, alternative.value, records);
    if (!why) {
      return why.error();
    }
    const std::string tail = ": " + why->refusal + "\n";
    const bool lacks = why->refusal.starts_with("cannot have ");
    if (lacks && before.refusal == why->refusal && before.axis == why->axis) {
      // The line before says the same of another value: "runtime A, B: cannot have --tp 2".
      text.resize(text.size() - tail.size());
      text += ", " + plan::value_text(why->axis, why->value) + tail;
    } else if (lacks) {
      text += std::string(plan::option_of(why->axis)) + " " +
              plan::value_text(why->axis, why->value) + tail;
    } else {
      text += why_line(result, *why) + "\n";
    }
    before = *why;
  }
  return text;
}

/// The same vendor's GPUs that have more memory than the given one, in ascending order, one of each
/// size, since the first that fits is the answer. They stand in their own nodes, with what was
/// typed of the host and the network, as the command says that asks for one of them. None if the
/// user gave a budget.
std::vector<plan::OtherDevice> larger_devices(const Arguments& arguments,
                                              const PlanSearch& search) {
  std::vector<plan::OtherDevice> larger;
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (search.budget > Bytes{0} || !folder) {
    return larger;
  }
  Result<std::vector<cost::DeviceSpec>> listed = cost::list_devices(folder->path);
  if (!listed) {
    return larger;
  }
  std::vector<cost::DeviceSpec> all = std::move(listed).value();
  std::ranges::stable_sort(all, {}, &cost::DeviceSpec::total);
  Arguments elsewhere = arguments;
  for (const std::string_view option : options_of_device()) {
    elsewhere.remove(option);
  }
  Bytes least = search.device.total;
  for (const cost::DeviceSpec& device : all) {
    // Another vendor's GPU runs other builds of the frameworks, if they have one.
    if (device.total <= least || device.vendor != search.device.vendor) {
      continue;
    }
    Result<cost::DeviceSpec> placed = with_asked_host(elsewhere, folder->path, device);
    Result<cost::Machine> machine = load_asked_machine(elsewhere, folder->path, device);
    if (placed && machine) {
      larger.push_back(
          {.device = std::move(placed).value(), .machine = std::move(machine).value()});
      least = device.total;
    }
  }
  return larger;
}

/// The values of the plan of `--plan` where the plan that was found has others.
std::vector<plan::Alternative> filed_alternatives(const PlanAnswer& answer) {
  std::vector<plan::Alternative> all;
  if (!answer.search.filed) {
    return all;
  }
  for (const plan::Axis axis : plan::all_axes()) {
    const std::int64_t own = plan::value_of(*answer.search.filed, axis);
    if (own >= 0 && plan::canonical(axis, own) !=
                        plan::canonical(axis, plan::value_of(answer.result.best->plan, axis))) {
      all.push_back({axis, own});
    }
  }
  return all;
}

/// What the plan that was found is asked for with, in every verb.
void add_commands(const Arguments& arguments, PlanAnswer& answer) {
  if (!answer.result.best || !answer.result.estimate) {
    return;
  }
  const PlanSearch& search = answer.search;
  const ir::ParallelPlan& plan = answer.result.best->plan;
  answer.file = plan_file_of(arguments, search.model, &search.device, plan);
  answer.file->search = search_assumptions(arguments);
  answer.commands =
      commands_of(*answer.file, search.model.spec, search.machine.topology.devices_per_node);
}

/// `--output`: the plan file, which every verb takes through --plan.
Status write_plan_file(const Arguments& arguments, const Context& context,
                       const PlanAnswer& answer) {
  const std::optional<std::string> path = arguments.value("output");
  if (!path) {
    return ok();
  }
  if (!answer.file) {
    add_notes(context,
              {"no plan was found, so " +
               (*path == "-" ? "standard output has no plan file" : *path + " is not written")});
    return ok();
  }
  const std::string content = to_pretty_json(ir::plan_file_to_json(*answer.file)) + "\n";
  if (*path == "-") {
    context.out << content;
    return ok();
  }
  Status written = write_file_atomically(*path, content);
  if (written) {
    context.err << "wrote " << *path << "; headroom fit --plan " << *path << " reads it\n";
  }
  return written;
}

/// What `fit` would say about the answer: of the model's files, the GPU, the plan and the machine.
std::vector<std::string> notes_of_search(const PlanAnswer& answer) {
  const PlanSearch& search = answer.search;
  std::vector<std::string> notes = search.model.notes;
  const auto add = [&notes](const std::vector<std::string>& more) {
    notes.insert(notes.end(), more.begin(), more.end());
  };
  add(asked_device_notes(answer.arguments, search.device, search.budget));
  const plan::RatedPlan* const leanest =
      answer.infeasible && answer.infeasible->leanest ? &*answer.infeasible->leanest : nullptr;
  const plan::RatedPlan* const shown = answer.result.best ? &*answer.result.best : leanest;
  add(shown != nullptr ? notes_of(search.model.spec, search.device, shown->plan)
                       : device_notes(search.device));
  const plan::AxisValues& counts = search.constraints.of(plan::Axis::kGpus);
  const std::int64_t asked = counts.empty() ? search.base.world : counts.back();
  add(machine_notes(search.machine, answer.result.best ? answer.result.best->plan.world : asked));
  if (answer.dropped_masters) {
    notes.emplace_back(
        "no plan fits with fp32 master weights, so the search went on without them: weights and "
        "optimizer states are in 16 bits, which trains differently (--precision bf16; type "
        "--precision bf16-master to see what fp32 master weights would need)");
  }
  if (answer.result.best && search.objective == plan::Objective::kMicroBatch &&
      answer.result.best->plan.workload.accumulation == 1) {
    notes.push_back("the micro-batches of all ranks are the whole batch of " +
                    counted(search.global_batch, "sequence") +
                    "; larger ones may fit with a larger --global-batch");
  }
  if (answer.result.estimate) {
    add(host_notes(answer.result.estimate->host, search.device));
  }
  return notes;
}

/// What is explained: only what `--why` asks, or also every neighbouring value of the plan.
enum class Explaining : std::uint8_t { kAsked, kAll };

/// Searches all GPU types, and takes the best of their answers into `answer`, with the table of
/// all.
Status search_types(GpuTypes& asked, std::span<plan::SearchRecords> records,
                    const SearchClock& clock, ProgressLine& line, PlanAnswer& answer) {
  std::vector<plan::PlanResult> results;
  std::vector<bool> dropped;
  for (std::size_t i = 0; i < asked.types.size(); ++i) {
    PlanSearch& search = asked.types[i].search;
    answer.gpus.push_back(search.device);
    if (search.machine.performance.estimated) {
      answer.estimated.push_back(search.device.name);
    }
    plan::SearchQuestion question = search.question();
    question.stop = clock.within(kSearchShare / static_cast<double>(asked.types.size() - i));
    question.progress = [&](const plan::SearchProgress& now) { line.draw(now); };
    Result<FoundPlans> found = find_plans(search, question, records[i]);
    if (!found) {
      return std::move(found).error();
    }
    results.push_back(std::move(found->result));
    dropped.push_back(found->dropped_masters);
  }
  answer.run = asked.run;
  answer.type = best_type(asked, results);
  if (results[answer.type].late) {
    plan::SearchQuestion question = asked.types[answer.type].search.question();
    question.stop = clock.within(kSearchShare);
    Result<plan::PlanResult> fastest = fastest_of(question, records[answer.type]);
    if (!fastest) {
      return std::move(fastest).error();
    }
    answer.fastest = std::move(fastest).value();
  }
  if (has_choices(asked) && !stop_asked) {
    Result<std::vector<PlanChoice>> choices = choices_of(
        asked, results, records,
        [&clock](double share) { return clock.within(kSearchShare * share); },
        [&line](std::string_view what) { line.say(what); });
    if (!choices) {
      return std::move(choices).error();
    }
    answer.choices = std::move(choices).value();
  }
  answer.search = asked.types[answer.type].search;
  answer.result = results[answer.type];
  doubt_best_type(asked, results, answer.type, answer.result);
  answer.dropped_masters = dropped[answer.type];
  return ok();
}

/// --time-limit.
Result<std::optional<Seconds>> read_time_limit(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.value("time-limit");
  if (!text) {
    return std::optional<Seconds>();
  }
  const Result<Seconds> limit = parse_duration("time-limit", *text, "30s");
  return limit ? Result<std::optional<Seconds>>(*limit) : limit.error();
}

/// --search-memory.
Status read_search_memory(const Arguments& arguments, GpuTypes& asked) {
  const std::optional<std::string> text = arguments.value("search-memory");
  if (!text) {
    return ok();
  }
  const Result<Bytes> memory = parse_size("search-memory", *text);
  if (!memory) {
    return memory.error();
  }
  for (GpuType& type : asked.types) {
    type.search.memory = *memory;
  }
  return ok();
}

/// Adds what would fit to the answer of a search that found nothing.
Status explain_what_fits(const Arguments& arguments, const plan::SearchQuestion& question,
                         plan::SearchRecords& records, PlanAnswer& answer) {
  const std::vector<plan::OtherDevice> larger = larger_devices(arguments, answer.search);
  Result<plan::Infeasibility> infeasible =
      plan::explain_infeasible(question, answer.result, larger, records);
  if (!infeasible) {
    return std::move(infeasible).error();
  }
  // More than the GPU has is no way out; the smallest peak and the larger GPU say as much.
  std::erase_if(infeasible->mends, [&](const plan::Mend& mend) {
    return mend.kind == plan::Mend::Kind::kBudget && Bytes{mend.value} > question.device.total;
  });
  answer.infeasible = std::move(infeasible).value();
  answer.adapter_changes = adapter_changes(arguments, answer.search, larger, question.stop);
  // Whoever has asked for adapters learns of the same hardware without other adapters.
  std::erase_if(answer.adapter_changes, [&](const AdapterChange& change) {
    return answer.search.base.lora.has_value() &&
           std::ranges::any_of(answer.infeasible->mends, [&](const plan::Mend& mend) {
             return mend.kind == change.mend.kind && mend.value <= change.mend.value;
           });
  });
  if (answer.infeasible->leanest) {
    answer.held_changes =
        changes_of_leanest(arguments, answer.search, question, answer.infeasible->leanest->plan);
  }
  if (!answer.adapter_changes.empty() && !answer.search.base.lora) {
    std::erase_if(answer.held_changes,
                  [](const HeldChange& change) { return change.remedy.plan.lora.has_value(); });
  }
  return ok();
}

/// The common implementation of `plan` and `explain`.
Result<ExitCode> run_plan_search(const Arguments& typed, const Context& context,
                                 Explaining explaining) {
  const Result<Arguments> filed = with_filed_search(typed);
  if (!filed) {
    return filed.error();
  }
  Arguments arguments = *filed;
  add_notes(context, filed_notes(arguments));
  Result<GpuTypes> read = read_gpu_types(arguments);
  if (!read) {
    return std::move(read).error();
  }
  GpuTypes types = std::move(read).value();
  if (explaining == Explaining::kAll && types.types.size() > 1) {
    return Error::invalid_argument("gpu", *arguments.value("gpu"), "one GPU type for explain",
                                   "headroom plan compares several");
  }
  std::vector<plan::Alternative> asked;
  if (const auto text = arguments.value("why")) {
    const Result<plan::Alternative> one = parse_alternative(*text);
    if (!one) {
      return one.error();
    }
    asked.push_back(*one);
  }
  if (Status status = read_search_memory(arguments, types); !status) {
    return std::move(status).error();
  }
  const Result<std::optional<Seconds>> limit = read_time_limit(arguments);
  if (!limit) {
    return limit.error();
  }
  const StopOnInterrupt guard;
  const SearchClock clock(*limit, stop_asked);
  PlanAnswer answer{.arguments = arguments, .search = {}, .result = {}, .seconds = 0, .why = {}};
  {
    ProgressLine line(context.err, context.terminal.color && !context.json,
                      types.types.front().search.objective, clock);
    std::vector<plan::SearchRecords> records_by_type(types.types.size());
    const Clock::time_point begin = Clock::now();
    if (Status status = search_types(types, records_by_type, clock, line, answer); !status) {
      return std::move(status).error();
    }
    arguments = types.types[answer.type].arguments;
    if (answer.dropped_masters) {
      arguments.set("precision", "bf16");
    }
    plan::SearchRecords& records = records_by_type[answer.type];
    plan::SearchQuestion question = answer.search.question();
    // Explanations are searches, too.
    question.stop = clock.within(explaining == Explaining::kAll ? 0.5 : 1);
    question.progress = [&](const plan::SearchProgress& now) { line.draw(now); };
    if (answer.result.best) {
      line.say("comparing the frameworks");
      Result<std::vector<plan::FrameworkBest>> rows =
          plan::best_of_frameworks(question, answer.result, records);
      if (!rows) {
        return std::move(rows).error();
      }
      answer.frameworks = std::move(rows).value();
      if (answer.choices.empty()) {  // They have rows of their own.
        plan::take_better(question, answer.frameworks, answer.result);
      }
      Result<std::vector<plan::Offer>> offers = plan::offers_of(question, answer.result);
      if (!offers) {
        return std::move(offers).error();
      }
      answer.offers = std::move(offers).value();
    }
    if (explaining == Explaining::kAll && answer.result.best) {
      for (const plan::Alternative& one : filed_alternatives(answer)) {
        asked.push_back(one);
      }
      for (const plan::Alternative& one : plan::alternatives_of(answer.result.best->plan)) {
        const auto same = [&one](const plan::Alternative& other) {
          return other.axis == one.axis && other.value == one.value;
        };
        if (std::ranges::none_of(asked, same)) {
          asked.push_back(one);
        }
      }
      const plan::RatedPlan& best = *answer.result.best;
      Result<std::vector<plan::StagePlacement>> placements = plan::search_of(best.plan).placements(
          question.space.model, best.plan, question.device, question.machine, best.capacity);
      if (!placements) {
        return std::move(placements).error();
      }
      answer.placements = std::move(placements).value();
    }
    question.stop = clock.within(1);
    question.longest = Seconds{0};  // Explanations compare times and peaks alone.
    Result<std::string> why = explanation(question, answer.result, asked, records);
    if (!why) {
      return std::move(why).error();
    }
    answer.why = std::move(why).value();
    if (answer.result.status == plan::PlanStatus::kInfeasible && !answer.result.late) {
      line.say("nothing fits; looking for what would");
      if (Status status = explain_what_fits(arguments, question, records, answer); !status) {
        return std::move(status).error();
      }
    }
    answer.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  add_notes(context, notes_of_search(answer));
  add_commands(arguments, answer);
  if (const Status written = write_plan_file(arguments, context, answer); !written) {
    return written.error();
  }
  answer.notes = context.notes->lines;
  // Without a plan there is no file; whoever asked for JSON gets the answer in its place.
  const bool in_place = arguments.value("output") == "-" && (answer.file || !context.json);
  if (!in_place) {
    context.out << (context.json ? plan_answer_json(answer)
                                 : plan_answer_text(answer, context.terminal));
  }
  return exit_code_of_search(answer.result);
}

Result<ExitCode> run_plan(const Arguments& arguments, const Context& context) {
  return run_plan_search(arguments, context, Explaining::kAsked);
}

Result<ExitCode> run_explain(const Arguments& arguments, const Context& context) {
  return run_plan_search(arguments, context, Explaining::kAll);
}

/// The options of `plan` and `explain`: those of the search, and --output.
std::vector<OptionSpec> plan_answer_options() {
  std::vector<OptionSpec> options = plan_search_options();
  for (const OptionSpec& option : training_run_options()) {
    options.push_back(option);
  }
  options.push_back({.name = "time-limit",
                     .value = "TIME",
                     .fallback = "none",
                     .help = "answer after this time at the latest, such as 30s or 10min, with the "
                             "best plan so far and the gap to what may be possible"});
  options.push_back({.name = "search-memory",
                     .value = "SIZE",
                     .fallback = "1GiB",
                     .help = "memory of this machine that the search may take; with less, large "
                             "spaces are listed several times. --front and --replay take more"});
  options.push_back({.name = "output",
                     .value = "FILE",
                     .fallback = "",
                     .help = "also write the plan to a file, which every verb takes through "
                             "--plan; - writes it in place of the answer"});
  return options;
}

}  // namespace

Command plan_command() {
  return {
      .verb =
          {.name = "plan",
           .summary =
               "Finds the plan with the shortest predicted step in its search space, and proves "
               "that no other plan there is shorter",
           .positionals = "MODEL",
           .detail = "MODEL is what headroom fit takes. An option limits the search to the "
                     "values that it names: --tp 4, --tp 2,4, --tp 2-16. The value any "
                     "leaves the choice to the search. With several GPU types (--gpu "
                     "a100-80gb,h100) or numbers of GPUs (--gpus 8-512), a table has the best "
                     "plan of each.",
           .options = plan_answer_options(),
           .example = "plan llama-3.1-8b --gpu a100-80gb --gpus 8",
           .model_at = 0},
      .run = run_plan};
}

Command explain_command() {
  std::vector<OptionSpec> options = plan_answer_options();
  options.push_back(oom_option());
  return {.verb = {.name = "explain",
                   .summary = "Finds the best plan, and says why it is better than its neighbours",
                   .positionals = "MODEL",
                   .detail =
                       "The options are those of headroom plan. The neighbours are the plans with "
                       "one degree halved or doubled, and the best plans of the other "
                       "frameworks. --oom FILE explains an out-of-memory message instead; MODEL "
                       "may then be left out, and the options are those of headroom fit.",
                   .options = std::move(options),
                   .example = "explain gpt2 --gpu a100-80gb --gpus 2 --tp 2",
                   .model_at = 0},
          .run = run_explain};
}

}  // namespace headroom::cli
