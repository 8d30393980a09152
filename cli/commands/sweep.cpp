#include "cli/commands/sweep.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "cli/plan_search.h"
#include "cli/report/plan_answer.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

/// One line of a sweep.
struct SweepItem {
  std::string model;
  std::string gpu;
  std::string gpus;
};

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    parts.push_back(part);
  }
  return parts;
}

std::vector<SweepItem> items_of(const Arguments& arguments) {
  std::vector<SweepItem> items;
  for (const std::string& model : arguments.positionals()) {
    for (const std::string& gpu : parts_of(arguments.value("gpu").value_or(""))) {
      for (const std::string& gpus : parts_of(arguments.value("gpus").value_or("1"))) {
        items.push_back({model, gpu, gpus});
      }
    }
  }
  return items;
}

/// The options of `plan` for one item.
Arguments arguments_of(const Arguments& all, const SweepItem& item) {
  Arguments one;
  one.add_positional(item.model);
  one.set("gpu", item.gpu);
  one.set("gpus", item.gpus);
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

Result<std::string> line_of(const Arguments& all, const SweepItem& item) {
  Result<PlanSearch> search = read_plan_search(arguments_of(all, item));
  if (!search) {
    return std::move(search).error();
  }
  const Result<plan::PlanResult> found = plan::search(search->question());
  ir::JsonFields fields;
  fields.add("model", item.model);
  fields.add("gpu", item.gpu);
  fields.add("gpus", item.gpus);
  if (!found) {
    fields.add("status", "refused");
    fields.add("error", found.error().got);
    return ir::to_json(std::move(fields).finish());
  }
  fields.add("status", name_of(found->status));
  fields.add("space", found->space);
  if (found->best && found->estimate) {
    fields.add("step_seconds", found->best->time.total().value());
    fields.add("tokens_per_second", tokens_per_second(*search, *found->best));
    fields.add("peak_allocated_bytes", found->estimate->peak_allocated);
    fields.add("margin_bytes", found->estimate->margin);
    fields.add("plan", plan_words(found->best->plan));
  }
  return ir::to_json(std::move(fields).finish());
}

std::string key_of(const SweepItem& item) {
  return item.model + "\n" + item.gpu + "\n" + item.gpus;
}

/// Items that the file has whole lines of.
std::set<std::string> done_in(const std::string& path) {
  std::set<std::string> done;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Result<ir::JsonValue> value = ir::parse_json(line, path);
    if (!value) {
      continue;  // A line that was cut off is done again.
    }
    const auto text = [&](const char* key) {
      const ir::JsonValue* const found = value->find(key);
      return found != nullptr && found->as_string() != nullptr ? *found->as_string()
                                                               : std::string();
    };
    done.insert(key_of({text("model"), text("gpu"), text("gpus")}));
  }
  return done;
}

Result<ExitCode> run_sweep(const Arguments& arguments, const Context& context) {
  const std::vector<SweepItem> items = items_of(arguments);
  if (items.empty()) {
    return Error::invalid_argument("MODEL", "no model or no --gpu", "at least one of each",
                                   "sweep gpt2 --gpu a100-80gb,h100 --gpus 1,8");
  }
  const std::optional<std::string> path = arguments.value("output");
  const std::set<std::string> done = path ? done_in(*path) : std::set<std::string>();
  std::ofstream file;
  if (path) {
    file.open(*path, std::ios::app);
    if (!file) {
      return Error::environment(*path, "no access", "a file that can be written");
    }
  }
  for (const SweepItem& item : items) {
    if (done.contains(key_of(item))) {
      continue;
    }
    const Result<std::string> line = line_of(arguments, item);
    if (!line) {
      return line.error();
    }
    (path ? static_cast<std::ostream&>(file) : context.out) << *line << "\n" << std::flush;
  }
  return ExitCode::kYes;
}

std::vector<OptionSpec> sweep_options() {
  std::vector<OptionSpec> options = plan_search_options();
  options.push_back({.name = "output",
                     .value = "FILE",
                     .fallback = "standard output",
                     .help = "file to add lines to; what it has already is not done again"});
  return options;
}

}  // namespace

Command sweep_command() {
  return {.verb = {.name = "sweep",
                   .summary = "The best plan of models x GPUs x counts, as JSON lines",
                   .positionals = "MODEL...",
                   .detail = "MODEL as headroom fit takes it; --gpu takes several names and --gpus "
                             "several counts, with commas between. One JSON object a line.",
                   .options = sweep_options(),
                   .example = "sweep gpt2 --gpu a100-80gb --gpus 1,2 --runtime megatron"},
          .run = run_sweep};
}

}  // namespace headroom::cli
