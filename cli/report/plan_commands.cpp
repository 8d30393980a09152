#include "cli/report/plan_commands.h"

#include <algorithm>
#include <span>
#include <utility>

#include "cli/allocator_options.h"
#include "cli/plan_file.h"
#include "cli/plan_options.h"
#include "cli/shell_words.h"
#include "model_ir/base/counted.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

void add_option(std::vector<std::string>& words, std::span<const OptionSpec> options,
                const std::string& name, const std::string& value) {
  words.push_back("--" + name);
  if (has_value({.name = name, .value = value}, options)) {
    words.push_back(shell_word(value));
  }
}

/// MODEL and the options of the plan, with those of the question if `whole`.
std::vector<std::string> asking_words(const ir::PlanFile& file, const ir::ModelSpec& model,
                                      bool whole) {
  std::vector<std::string> words = {file.model.empty() ? "MODEL" : shell_word(file.model)};
  if (whole && !file.device.empty()) {
    add_option(words, {}, "gpu", file.device);
  }
  for (const OptionValue& option : options_of(file.plan, model)) {
    add_option(words, plan_option_specs(), option.name, option.value);
  }
  for (const ir::Assumption& assumption : file.assumptions) {
    const bool of_model = std::ranges::any_of(model_options(), [&](const OptionSpec& option) {
      return option.name == assumption.option;
    });
    if (whole || of_model) {
      add_option(words, assumption_options(), assumption.option, assumption.value);
    }
  }
  return words;
}

std::vector<std::string> command(std::vector<std::string> words,
                                 const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The words as a shell takes them.
std::vector<std::string> launch_words(const PlanCommands& commands) {
  std::vector<std::string> words = commands.environment;
  ir::append_words(words, commands.launch.environment);
  for (const std::string& word : commands.launch.command) {
    words.push_back(shell_word_with_variables(word));
  }
  return words;
}

}  // namespace

std::string one_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += (line.empty() ? "" : " ") + word;
  }
  return line;
}

PlanCommands commands_of(const ir::PlanFile& file, const ir::ModelSpec& model,
                         std::int64_t gpus_per_node) {
  const ir::Runtime& runtime = ir::runtime_of(file.plan);
  PlanCommands commands;
  commands.gpus = file.plan.world;
  commands.fit = command({"headroom", "fit"}, asking_words(file, model, true));
  if (const std::vector<ir::ConfigurationFormat> formats = runtime.configuration_formats();
      !formats.empty()) {
    commands.emit = command({"headroom", "emit", std::string(formats.front().name)},
                            asking_words(file, model, false));
    ir::append_words(commands.emit, {"--output", std::string(formats.front().file)});
  }
  if (!(file.plan.allocator == ir::AllocatorSettings{})) {
    commands.environment.push_back("PYTORCH_ALLOC_CONF=" + to_text(file.plan.allocator));
  }
  commands.launch = runtime.launch(
      model, file.plan,
      {.gpus_per_node = std::max<std::int64_t>(1, gpus_per_node), .model = file.model});
  commands.clips = file.plan.clip_norm.has_value() || commands.launch.clips;
  return commands;
}

std::string commands_text(const PlanCommands& commands, const Terminal& terminal) {
  constexpr std::size_t kIndent = 4;
  const auto shown = [&](const std::vector<std::string>& words) {
    return "  " + wrap_command(words, terminal.width - 2, kIndent) + "\n";
  };
  std::string text =
      "\non " + counted(commands.gpus, "GPU") + "; the same plan again:\n" + shown(commands.fit);
  text += commands.clips
              ? "to run it:\n"
              : "to run it (without clipping of gradients; plan with --clip-norm 1 to add it):\n";
  if (!commands.emit.empty()) {
    text += shown(commands.emit);
  }
  text += shown(launch_words(commands));
  if (!commands.launch.code.empty()) {
    const bool comments = std::ranges::all_of(
        commands.launch.code, [](const std::string& line) { return line.starts_with("#"); });
    text += comments ? "notes on the command:\n" : "in the script:\n";
    for (const std::string& line : commands.launch.code) {
      text += "  " + line + "\n";
    }
  }
  return text;
}

ir::JsonValue commands_json(const PlanCommands& commands) {
  ir::JsonFields fields;
  fields.add("gpus", commands.gpus);
  fields.add("fit", one_line(commands.fit));
  fields.add("emit",
             commands.emit.empty() ? ir::JsonValue{} : ir::JsonValue{one_line(commands.emit)});
  fields.add("launch", one_line(launch_words(commands)));
  fields.add("script", ir::json_texts(commands.launch.code));
  return std::move(fields).finish();
}

}  // namespace headroom::cli
