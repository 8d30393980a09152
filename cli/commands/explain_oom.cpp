#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

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

/// The messages of the file, each once; those after the first `kMostReadings` are left out.
Result<std::vector<OomReading>> read_messages(const std::string& path, const Context& context) {
  const std::string name = path == "-" ? "standard input" : path;
  const Result<std::string> text = read_file(path == "-" ? "/dev/stdin" : path);
  if (!text) {
    return text.error();
  }
  std::vector<OomReading> readings;
  std::size_t left_out = 0;
  for (check::OutOfMemoryMessage& message : check::read_out_of_memory(*text)) {
    const auto is_same = [&message](const OomReading& other) {
      const check::OutOfMemoryMessage& known = other.message;
      return known.asked == message.asked && known.allocated == message.allocated &&
             known.reserved == message.reserved && known.free == message.free &&
             known.others == message.others;
    };
    auto reading = std::ranges::find_if(readings, is_same);
    if (reading == readings.end() && readings.size() == kMostReadings) {
      ++left_out;
      continue;
    }
    if (reading == readings.end()) {
      check::OomAccount account = check::account_of(message);
      std::vector<check::OomCause> causes = check::causes_of(message, account);
      readings.push_back({.message = std::move(message),
                          .ranks = {},
                          .times = 0,
                          .account = std::move(account),
                          .causes = std::move(causes),
                          .match = {}});
      reading = readings.end() - 1;
      message.rank = reading->message.rank;
    }
    ++reading->times;
    if (!message.rank.empty() &&
        std::ranges::find(reading->ranks, message.rank) == reading->ranks.end()) {
      reading->ranks.push_back(message.rank);
    }
  }
  if (left_out > 0) {
    add_notes(context, {name + ": " + std::to_string(left_out) + " messages after the first " +
                        std::to_string(kMostReadings) + " that differ are left out"});
  }
  if (readings.empty()) {
    return Error::invalid_input(
        name, "/", "no out-of-memory message",
        "PyTorch's text with \"CUDA out of memory. Tried to allocate ...\"",
        "copy the last lines of the traceback; messages of other programs are not read");
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

Result<ExitCode> run_explain_oom(const Arguments& typed, const Context& context) {
  const std::string path = typed.value("oom").value_or("-");
  const auto& given = typed.positionals();
  if (path == "-" && (typed.value("plan") == "-" || std::ranges::find(given, "-") != given.end())) {
    return Error::invalid_argument("oom", "-, and MODEL or --plan is - as well",
                                   "one thing to read from standard input",
                                   "name the file of one of them");
  }
  Result<std::vector<OomReading>> readings = read_messages(path, context);
  if (!readings) {
    return std::move(readings).error();
  }
  Arguments arguments = typed;
  OomAnswer answer{.readings = std::move(readings).value(), .fit = {}, .notes = {}};
  if (!given.empty() || typed.has("plan")) {
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
          .when = "oom"};
}

}  // namespace headroom::cli
