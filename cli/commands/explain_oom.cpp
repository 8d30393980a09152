#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/calibration.h"
#include "cli/commands/verbs.h"
#include "cli/fit_question.h"
#include "cli/plan_options.h"
#include "cli/question.h"
#include "cli/report/host_text.h"
#include "cli/report/oom_answer.h"
#include "cli/routing.h"
#include "cli/time_options.h"
#include "model_ir/base/file.h"

namespace headroom::cli {
namespace {

/// More messages that all differ are a log of many runs.
constexpr std::size_t kMostReadings = 64;
/// The ranks beyond these are counted only.
constexpr std::size_t kMostRanks = 1'024;

/// Messages, each once, with who printed it.
class Readings {
 public:
  void add(check::OutOfMemoryMessage message) {
    const auto is_same = [&message](const OomReading& other) {
      const check::OutOfMemoryMessage& known = other.message;
      return known.asked == message.asked && known.allocated == message.allocated &&
             known.reserved == message.reserved && known.free == message.free &&
             known.others == message.others;
    };
    const auto known = std::ranges::find_if(all_, is_same);
    const auto at = static_cast<std::size_t>(known - all_.begin());
    if (at == kMostReadings) {
      ++left_out_;
      return;
    }
    const std::string rank = message.rank;
    if (known == all_.end()) {
      check::OomAccount account = check::account_of(message);
      std::vector<check::OomCause> causes = check::causes_of(message, account);
      all_.push_back({.message = std::move(message),
                      .ranks = {},
                      .more_ranks = 0,
                      .times = 0,
                      .account = std::move(account),
                      .causes = std::move(causes),
                      .match = {}});
    }
    ++all_[at].times;
    add_rank(at, rank);
  }
  [[nodiscard]] std::size_t left_out() const { return left_out_; }
  [[nodiscard]] std::vector<OomReading> take() { return std::move(all_); }

 private:
  void add_rank(std::size_t at, const std::string& rank) {
    if (rank.empty() || !ranks_.emplace(at, rank).second) {
      return;
    }
    OomReading& reading = all_[at];
    if (reading.ranks.size() < kMostRanks) {
      reading.ranks.push_back(rank);
    } else {
      ++reading.more_ranks;
    }
  }

  std::vector<OomReading> all_;
  std::set<std::pair<std::size_t, std::string>> ranks_;  ///< Index in `all_`, and a rank of it.
  std::size_t left_out_ = 0;
};

/// The error about a text without a message of PyTorch's caching allocator.
Error without_message(const std::string& name, const std::string& text) {
  const std::string failure(check::outside_allocation_failure(text));
  if (failure.empty()) {
    return Error::invalid_input(
        name, {}, "no out-of-memory message",
        "PyTorch's text with \"CUDA out of memory. Tried to allocate ...\"",
        "copy the last lines of the traceback; messages of other programs are not read");
  }
  return Error::invalid_input(
      name, {},
      "\"" + failure +
          "\" means that an allocation outside of PyTorch's caching allocator failed: a CUDA "
          "context, a library such as cuBLAS or NCCL, or a kernel that was loaded. The message "
          "has no figures, so it does not say who held the memory",
      {},
      "look at nvidia-smi for other processes on the GPU, also for those of an earlier run, and "
      "end them; if there are none, headroom fit MODEL --gpu NAME with the options of the run "
      "says how much memory the run needs");
}

/// The messages of the file, each once; those after the first `kMostReadings` are left out.
Result<std::vector<OomReading>> read_messages(const std::string& path, const Context& context) {
  const std::string name = path == "-" ? "standard input" : path;
  const Result<std::string> text = read_file(path == "-" ? "/dev/stdin" : path);
  if (!text) {
    return text.error();
  }
  Readings all;
  for (check::OutOfMemoryMessage& message : check::read_out_of_memory(*text)) {
    all.add(std::move(message));
  }
  if (all.left_out() > 0) {
    add_notes(context,
              {name + ": " + std::to_string(all.left_out()) + " messages after the first " +
               std::to_string(kMostReadings) + " that differ are left out"});
  }
  std::vector<OomReading> readings = all.take();
  if (readings.empty()) {
    return without_message(name, *text);
  }
  return readings;
}

/// What the run could have on the GPU beside other processes; nothing if it had all of it.
std::optional<Bytes> own_share(const std::vector<OomReading>& readings) {
  std::optional<Bytes> least;
  for (const OomReading& reading : readings) {
    const Bytes others = reading.account.other_processes.value_or(Bytes{0});
    if (others > Bytes{0} && reading.message.capacity && reading.message.capacity->bytes > others) {
      const Bytes share = reading.message.capacity->bytes - others;
      least = least ? std::min(*least, share) : share;
    }
  }
  return least;
}

/// Predicts the run, finds the requests in it and looks for changes.
Result<FitAnswer> answer_run(const Arguments& arguments, const Context& context,
                             std::vector<OomReading>& readings) {
  Result<Question> question = read_question(arguments);
  if (!question) {
    return std::move(question).error();
  }
  add_notes(context, question->model, question->request);
  const Bytes total = question->device.total;
  const ir::AllocatorSettings settings = question->request.plan.allocator;
  const cost::TreeWalk tree = context.json ? cost::TreeWalk::kAlways : cost::TreeWalk::kNone;
  Result<FitAnswer> answer = answer_fit(arguments, std::move(question).value(), tree);
  if (!answer) {
    return answer;
  }
  add_notes(context, host_notes(answer->estimate.host, answer->question.device));
  for (OomReading& reading : readings) {
    reading.match = check::match_of(reading.message, answer->estimate, settings);
    if (const auto& capacity = reading.message.capacity) {
      constexpr std::int64_t kSameDevice = 50;  // 2 %: what ECC and drivers take differs by less.
      const Bytes off = capacity->bytes - total;
      if (kSameDevice * std::max(off, -off) > total) {
        add_notes(context, {"the message is of a GPU with " + to_text(capacity->bytes) + ", " +
                            answer->question.device.name + " has " + to_text(total) +
                            ": --gpu names the GPU of the run"});
        break;
      }
    }
  }
  return answer;
}

/// The error about an option of the run without a run.
std::optional<Error> option_without_model(const Arguments& arguments) {
  for (const OptionSpec& option : explain_oom_command().verb.options) {
    const std::optional<std::string> value = arguments.value(option.name);
    if (value && option.name != oom_option().name) {
      const Error typed =
          arguments.as_typed(Error::invalid_argument(std::string(option.name), *value, {}));
      return Error::invalid_argument(
          "MODEL", "nothing, and --" + typed.key + " is given",
          "the model of the run, which its options describe: a name from headroom catalog models, "
          "or a path to a config.json",
          "add MODEL or --plan, or leave out the options of the run");
    }
  }
  return std::nullopt;
}

Result<ExitCode> run_explain_oom(const Arguments& typed, const Context& context) {
  const std::string path = typed.value("oom").value_or("-");
  const auto& given = typed.positionals();
  if (path == "-" && (typed.value("plan") == "-" || std::ranges::find(given, "-") != given.end())) {
    return Error::invalid_argument("oom", "-, and MODEL or --plan is - as well",
                                   "one thing to read from standard input",
                                   "name the file of one of them");
  }
  const bool knows_run = !given.empty() || typed.has("plan");
  if (const auto fault = knows_run ? std::nullopt : option_without_model(typed)) {
    return *fault;
  }
  Result<std::vector<OomReading>> readings = read_messages(path, context);
  if (!readings) {
    return std::move(readings).error();
  }
  Arguments arguments = typed;
  OomAnswer answer{.readings = std::move(readings).value(), .fit = {}, .notes = {}};
  if (knows_run) {
    constexpr std::int64_t kLeastShare = 64 * kMiB;
    const std::optional<Bytes> share = own_share(answer.readings);
    if (share && *share > Bytes{kLeastShare} && !typed.has("budget")) {
      const std::string budget = std::to_string(share->value() / kMiB) + "MiB";
      arguments.set("budget", budget);
      add_notes(context, {"other processes are on the GPU: the run is judged with --budget " +
                          budget + ", what they leave"});
    }
    Result<FitAnswer> fit = answer_run(arguments, context, answer.readings);
    if (!fit) {
      return std::move(fit).error();
    }
    answer.fit.emplace(std::move(fit).value());
    answer.fit->notes = context.notes->lines;
  }
  answer.notes = context.notes->lines;
  context.out << (context.json ? oom_json(answer) : oom_text(answer, context.terminal));
  return ExitCode::kYes;
}

}  // namespace

OptionSpec oom_option() {
  return {.name = "oom",
          .value = "FILE",
          .fallback = "",
          .help =
              "explain PyTorch's out-of-memory messages in this text or log; - is standard "
              "input"};
}

Command explain_oom_command() {
  std::vector<OptionSpec> options = {oom_option()};
  for (const std::vector<OptionSpec>& more :
       {question_options(), time_options(), calibration_options()}) {
    options.insert(options.end(), more.begin(), more.end());
  }
  options.push_back(routing_option());
  return {.verb = {.name = "explain",
                   .summary = "Reads PyTorch's out-of-memory messages, and says what to change",
                   .positionals = "--oom FILE [MODEL]",
                   .detail = "FILE is a log, a traceback or the message alone; - is standard "
                             "input. With MODEL and the options of headroom fit, or with --plan, "
                             "the answer names the moment of the run that asked for the memory, "
                             "and changes after which it fits.",
                   .options = std::move(options),
                   .example = "explain --oom train.log llama-3.1-8b --gpu a100-80gb",
                   .model_at = 0,
                   .takes_own_options = true},
          .run = run_explain_oom,
          .when = {"oom"}};
}

}  // namespace headroom::cli
