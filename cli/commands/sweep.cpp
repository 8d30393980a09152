#include "cli/commands/verbs.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/plan_search.h"
#include "cli/ranks.h"
#include "cli/report/plan_answer.h"
#include "cli/report/plan_commands.h"
#include "cli/report/sweep_table.h"
#include "cli/report/why_text.h"
#include "cli/scalars.h"
#include "cli/sweep_file.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

/// The other options on which the answers of a sweep depend. Options of the output are left out.
std::string search_options_text(const Arguments& arguments) {
  constexpr std::array<std::string_view, 4> kAside = {"gpu", "gpus", "threads", "config-dir"};
  std::string text;
  for (const OptionSpec& option : plan_search_options()) {
    const std::optional<std::string> value = arguments.value(option.name);
    if (value && std::ranges::find(kAside, option.name) == kAside.end()) {
      text += (text.empty() ? "--" : " --") + std::string(option.name) +
              (value->empty() ? "" : " " + *value);
    }
  }
  return text;
}

std::vector<SweepItem> items_of(const Arguments& arguments) {
  std::vector<SweepItem> items;
  const std::string options = search_options_text(arguments);
  const std::optional<std::string> devices = arguments.value("gpu");
  if (!devices) {
    return items;
  }
  for (const std::string& model : arguments.positionals()) {
    for (const std::string& gpu : split_at(*devices, ',')) {
      for (const std::string& gpus : split_at(arguments.value("gpus").value_or("1"), ',')) {
        const SweepItem item{model, gpu, gpus, options};
        if (std::ranges::find(items, item) == items.end()) {
          items.push_back(item);
        }
      }
    }
  }
  return items;
}

/// The arguments of `plan` for one item.
Arguments arguments_of(const Arguments& all, const SweepItem& item) {
  Arguments one;
  one.add_positional(item.model);
  one.set("gpu", item.gpu);
  one.set("gpus", item.gpus);
  if (all.model_input()) {
    one.set_model_input(*all.model_input());
  }
  if (all.plan_document()) {
    one.set_plan_document(*all.plan_document());
  }
  std::vector<OptionSpec> options = plan_search_options();
  options.insert(options.end(), common_options().begin(), common_options().end());
  for (const OptionSpec& option : options) {
    const std::optional<std::string> value = all.value(option.name);
    if (value && option.name != "gpu" && option.name != "gpus") {
      one.set(option.name, *value);
    }
  }
  return one;
}

void add_host(Bytes needed, Bytes capacity, ir::JsonFields& fields) {
  fields.add("host_bytes", needed);
  fields.add("host_short_bytes", std::max(needed - capacity, Bytes{0}));
}

/// Adds the verdict, the chance to fit and the host memory, as `fit` states them.
void add_verdict(const cost::StepEstimate& estimate, ir::JsonFields& fields) {
  fields.add("verdict", name_of(estimate.verdict));
  fields.add("yes", cost::is_yes(estimate.verdict, estimate.chance));
  fields.add("fits_probability",
             estimate.chance ? ir::JsonValue{*estimate.chance} : ir::JsonValue{});
  const cost::HostMemory& host = estimate.host;
  add_host(host.bytes, host.capacity.value_or(host.bytes), fields);
}

/// The plan for other verbs: as a command, and as a plan file.
void add_command(const ir::PlanFile& file, const PlanSearch& search, ir::JsonFields& fields) {
  const PlanCommands commands =
      commands_of(file, search.model.spec, search.machine.topology.devices_per_node);
  fields.add("command", one_line(commands.fit));
  fields.add("plan_file", ir::plan_file_to_json(file));
}

/// Why no plan fits.
std::string none_fits(const plan::PlanResult& found, const cost::DeviceSpec& device) {
  if (const auto& lean = found.leanest) {
    return "the smallest peak found is " + to_text(lean->peak) + ", and " +
           to_text(lean->capacity) + " can be allocated" +
           (lean->peak <= lean->capacity ? ", but PyTorch reserves more than it allocates" : "") +
           ": " + plan_words(lean->plan);
  }
  if (const auto& host = found.least_host) {
    return host_need(*host, device);
  }
  return found.status == plan::PlanStatus::kInfeasible
             ? "the parameters and optimizer states alone are too large in every plan"
             : "the search stopped before a plan that fits was found";
}

/// An answer, and why it has no plan.
struct SweepAnswer {
  ir::JsonValue json;
  std::string reason;
};

Result<SweepAnswer> answer_of(const Arguments& all, const SweepItem& item) {
  Arguments arguments = arguments_of(all, item);
  Result<PlanSearch> read = read_plan_search(arguments);
  if (!read) {
    return std::move(read).error();
  }
  PlanSearch search = std::move(read).value();
  plan::SearchQuestion question = search.question();
  question.proven = false;  // A sweep replays one plan for each of its questions.
  plan::SearchRecords records;
  const Result<FoundPlans> plans = find_plans(search, question, records);
  if (plans && plans->dropped_masters) {
    arguments.set("precision", "bf16");
  }
  const Result<plan::PlanResult> found =
      plans ? Result<plan::PlanResult>(plans->result) : Result<plan::PlanResult>(plans.error());
  ir::JsonFields fields;
  fields.add("model", item.model);
  fields.add("gpu", item.gpu);
  fields.add("gpus", item.gpus);
  fields.add("options", item.options);
  if (!found) {
    fields.add("status", "refused");
    const std::string error = "got " + found.error().got + ", expected " + found.error().wanted;
    fields.add("error", error);
    return SweepAnswer{.json = std::move(fields).finish(), .reason = error};
  }
  fields.add("status", name_of(found->status));
  fields.add("space", found->space);
  if (found->best && found->estimate) {
    fields.add("step_seconds", found->best->time.total().value());
    fields.add("tokens_per_second", tokens_per_second(search, *found->best));
    fields.add("peak_allocated_bytes", found->estimate->peak_allocated);
    fields.add("margin_bytes", found->estimate->margin);
    fields.add("plan", plan_words(found->best->plan));
    add_verdict(*found->estimate, fields);
    ir::PlanFile file = plan_file_of(arguments, search.model, &search.device, found->best->plan);
    file.search = search_assumptions(arguments);
    add_command(file, search, fields);
  } else if (found->least_host) {
    add_host(found->least_host->host, found->least_host->host_capacity, fields);
  }
  return SweepAnswer{.json = std::move(fields).finish(),
                     .reason = none_fits(*found, search.device)};
}

Result<SweepFormat> read_format(const Arguments& arguments, const Ranks& ranks, bool json) {
  const std::string text = arguments.value("format").value_or("jsonl");
  if (json && text == "csv" && !arguments.has("output")) {
    return Error::invalid_argument("json", "needs --output FILE here: CSV is not JSON", {},
                                   "add --output FILE, or leave out --format csv");
  }
  if (text == "table" && (json || arguments.has("output") || ranks.size() > 1)) {
    return Error::invalid_argument(
        "format",
        std::string("table does not go with ") + (json                      ? "--json"
                                                  : arguments.has("output") ? "--output FILE"
                                                                            : "several processes"),
        {}, "use --format jsonl");
  }
  if (text == "jsonl" || text == "table") {
    return SweepFormat::kJsonLines;
  }
  if (text == "csv") {
    return SweepFormat::kCsv;
  }
  return Error::invalid_argument("format", text, "table, jsonl or csv", "use --format jsonl");
}

/// Whether people read the answers as they come.
bool shows_table(const Arguments& arguments, const Context& context, const Ranks& ranks) {
  const std::optional<std::string> format = arguments.value("format");
  const bool wanted = format ? *format == "table" : context.terminal.interactive;
  return wanted && !context.json && !arguments.has("output") && ranks.size() == 1;
}

/// The checks that every rank makes before it begins.
Status check_items(const Arguments& arguments, const std::vector<SweepItem>& items) {
  if (items.empty()) {
    return Error::invalid_argument("MODEL", "nothing, or no --gpu",
                                   "at least one model and one GPU",
                                   "headroom sweep gpt2 --gpu a100-80gb,h100 --gpus 1,8");
  }
  for (const SweepItem& item : items) {
    if (const Result<PlanSearch> search = read_plan_search(arguments_of(arguments, item));
        !search) {
      return search.error();
    }
  }
  return ok();
}

Status check_sweep(const Arguments& arguments, SweepFormat format) {
  const std::optional<std::string> path = arguments.value("output");
  if (path && !may_extend(*path, format)) {
    return Error::invalid_argument(
        "output", *path + ", which is no file of such a sweep",
        "a new file, or one that a sweep of this release wrote in the same --format",
        "choose another --output");
  }
  return check_items(arguments, items_of(arguments));
}

/// The part of a sweep that one rank runs.
class Sweep {
 public:
  Sweep(const Arguments& arguments, const Context& context, const Ranks& ranks, SweepFormat format)
      : arguments_(arguments),
        context_(context),
        ranks_(ranks),
        format_(format),
        items_(items_of(arguments)) {
    if (shows_table(arguments, context, ranks)) {
      table_.emplace(items_, context.terminal);
    }
    if (const std::optional<std::string> path = arguments.value("output")) {
      file_.emplace(*path, format);
      lines_ = file_->lines();
    }
  }

  /// Errors:  those of the search; kEnvironment if the output cannot be written.
  Status run() {
    // No rank may add to the files before every rank has read them.
    ranks_.wait();
    const Status mine = run_share();
    const Status all = gather(mine.has_value());
    ranks_.wait();
    if (file_) {
      file_->remove_own();
    }
    return mine ? all : mine;
  }

 private:
  [[nodiscard]] bool streams() const { return !file_ && ranks_.size() == 1 && !context_.json; }
  [[nodiscard]] bool is_mine(std::size_t index) const {
    return index % static_cast<std::size_t>(ranks_.size()) ==
           static_cast<std::size_t>(ranks_.rank());
  }

  Status run_share() {
    if (file_) {
      if (Status status = file_->open(ranks_.rank()); !status) {
        return status;
      }
    }
    if (table_) {
      context_.out << table_->header();
    } else if (streams() && format_ == SweepFormat::kCsv) {
      context_.out << sweep_header(format_) << "\n";
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (!is_mine(i) || lines_.contains(items_[i])) {
        continue;
      }
      const Result<SweepAnswer> answer = answer_of(arguments_, items_[i]);
      if (!answer) {
        return answer.error();
      }
      const std::string line = sweep_line(format_, answer->json);
      lines_.emplace(items_[i], line);
      if (file_) {
        if (Status status = file_->add(items_[i], line); !status) {
          return status;
        }
      } else if (table_) {
        context_.out << table_->lines(answer->json, answer->reason) << std::flush;
      } else if (streams()) {
        context_.out << line << "\n" << std::flush;
      }
    }
    return ok();
  }

  /// Sends all lines to the first rank, which writes them in the order of the items. If its own
  /// share failed (`complete` is false), its error takes the place of the document of --json.
  Status gather(bool complete) {
    std::string text;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const auto line = lines_.find(items_[i]);
      text += is_mine(i) && line != lines_.end() ? line->second + "\n" : "";
    }
    const Result<std::vector<std::string>> texts = ranks_.gather(text);
    if (!texts) {
      return texts.error();
    }
    if (!ranks_.is_first() || streams()) {
      return ok();
    }
    for (const std::string& one : *texts) {
      std::stringstream stream(one);
      for (std::string line; std::getline(stream, line);) {
        if (const std::optional<SweepItem> item = item_of_line(format_, line)) {
          lines_.emplace(*item, line);
        }
      }
    }
    const Status finished = file_ ? file_->finish(items_, lines_) : ok();
    if (finished && context_.json) {
      if (complete) {
        print_document();
      }
    } else if (finished && !file_) {
      print();
    }
    return finished;
  }

  void print() {
    const std::string header = sweep_header(format_);
    context_.out << (header.empty() ? "" : header + "\n");
    for (const SweepItem& item : items_) {
      const auto line = lines_.find(item);
      context_.out << (line != lines_.end() ? line->second + "\n" : "");
    }
  }

  /// One document for --json: all answers, or the file that has them.
  void print_document() {
    ir::JsonFields document;
    document.add("schema_version", 1);
    if (file_) {
      document.add("output", *arguments_.value("output"));
      document.add("items", items_.size());
    } else {
      ir::JsonValue::Array answers;
      for (const SweepItem& item : items_) {
        // Another rank whose share failed has said so, and has sent fewer lines.
        if (const auto line = lines_.find(item); line != lines_.end()) {
          answers.push_back(ir::parse_json(line->second, "sweep").value());
        }
      }
      document.add("answers", ir::JsonValue{std::move(answers)});
    }
    document.add("notes", ir::json_texts(context_.notes->lines));
    context_.out << to_pretty_json(std::move(document).finish()) << "\n";
  }

  const Arguments& arguments_;
  const Context& context_;
  const Ranks& ranks_;
  SweepFormat format_;
  std::vector<SweepItem> items_;
  std::optional<SweepTable> table_;
  std::optional<SweepFile> file_;
  std::map<SweepItem, std::string> lines_;
};

/// Reads the configuration of MODEL "-", once for all its combinations.
///
/// Errors:  kInvalidArgument if an answer could not be told from that to another configuration, or
///          if other processes would need it; those of `read_file`.
Status read_model_input(const Ranks& ranks, Arguments& arguments) {
  const std::vector<std::string>& models = arguments.positionals();
  if (std::ranges::find(models, "-") == models.end()) {
    return ok();
  }
  if (ranks.size() > 1 || arguments.has("output")) {
    return Error::invalid_argument(
        "MODEL",
        std::string("-, with ") + (ranks.size() > 1 ? "several processes" : "--output FILE"),
        ranks.size() > 1
            ? "a file, which every process can read"
            : "a file, whose name tells its answers from those to another configuration",
        "write the configuration into a file and name that file");
  }
  Result<std::string> text = read_file("/dev/stdin");
  if (!text) {
    return std::move(text).error();
  }
  arguments.set_model_input(std::move(text).value());
  return ok();
}

Result<ExitCode> run_sweep(const Arguments& typed, const Context& context) {
  const Result<Ranks> ranks = Ranks::join();
  if (!ranks) {
    return ranks.error();
  }
  Result<Arguments> filed = with_filed_search(typed);
  if (!filed) {
    return filed.error();
  }
  const Status input = read_model_input(*ranks, filed.value());
  const Arguments& arguments = *filed;
  if (ranks->is_first()) {
    add_notes(context, filed_notes(arguments));
  }
  const Result<SweepFormat> format = read_format(arguments, *ranks, context.json);
  const Status wrong = !input    ? input.error()
                       : !format ? Status(format.error())
                                 : check_sweep(arguments, *format);
  if (!wrong) {
    // All ranks find the same error; only the first one reports it. The others return success,
    // because a launcher ends all ranks when one fails.
    return ranks->is_first() ? Result<ExitCode>(wrong.error()) : Result<ExitCode>(ExitCode::kYes);
  }
  if (Status status = Sweep(arguments, context, *ranks, *format).run(); !status) {
    return std::move(status).error();
  }
  return ExitCode::kYes;
}

std::vector<OptionSpec> sweep_options() {
  std::vector<OptionSpec> options = plan_search_options();
  options.push_back(
      {.name = "format",
       .value = "FORM",
       .fallback = "table on a terminal, else jsonl",
       .help = "table (for people), jsonl (one JSON object per line) or csv (a header, then one "
               "line per answer)"});
  options.push_back({.name = "output",
                     .value = "FILE",
                     .fallback = "standard output",
                     .help = "file to which lines are added; combinations that it already has are "
                             "not searched again"});
  return options;
}

}  // namespace

Command sweep_command() {
  return {
      .verb = {.name = "sweep",
               .summary =
                   "Finds the best plan for each combination of models, GPU types and GPU counts",
               .positionals = "MODEL...",
               .detail =
                   "Each MODEL is what headroom fit takes; - is read once, and does not go with "
                   "--output or mpirun. --gpu takes several names and "
                   "--gpus several counts, separated by commas. The answer has one line "
                   "for each combination; on a terminal, the plan or the reason why none fits "
                   "follows below it. mpirun -n N headroom sweep ... splits the work "
                   "over processes and machines, with the same answer. If a sweep with "
                   "--output FILE is interrupted, the same command completes the file. "
                   "--json prints one document in place of lines. Other verbs take a file "
                   "of JSON lines, or the document, through --plan; MODEL, --gpu and --gpus "
                   "say which of several plans is meant.",
               .options = sweep_options(),
               .example = "sweep gpt2 --gpu a100-80gb --gpus 1,2",
               .model_at = 0},
      .run = run_sweep};
}

}  // namespace headroom::cli
