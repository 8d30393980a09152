#include "cli/help.h"

#include <algorithm>
#include <utility>

#include "cli/option_page.h"
#include "cli/option_text.h"
#include "cli/plan_options.h"
#include "model_ir/base/units.h"

namespace headroom::cli {
namespace {

constexpr std::size_t kOptionColumns = 26;
constexpr std::size_t kVerbColumns = 12;

/// "  --gpus N                ranks, one per GPU [default: 1]".
std::string line_of(const std::string& name, const std::string& text, std::size_t width,
                    std::size_t columns = kOptionColumns) {
  const std::string gap = columns_of(name) < columns ? std::string(columns - columns_of(name), ' ')
                                                     : "\n" + std::string(columns, ' ');
  return name + gap + wrap(text, width - columns, columns) + "\n";
}

std::string with_default(std::string text, const std::string& fallback) {
  return fallback.empty() ? text : std::move(text) + " [default: " + fallback + "]";
}

std::string option_line(const OptionSpec& option, std::size_t width) {
  std::string name = "  --" + std::string(option.name);
  if (!option.value.empty()) {
    name += " " + std::string(option.value);
  }
  return line_of(name, with_default(std::string(option.help), std::string(option.fallback)), width);
}

std::string topic_line(const HelpTopic& topic, std::size_t width) {
  std::string text = topic.title;
  for (const std::string_view other : topic.others) {
    text += " (or --help " + std::string(other) + ")";
  }
  return line_of("  " + topic.name, text, width);
}

/// A key of PYTORCH_ALLOC_CONF, whose sizes are in MiB: "max_split_size_mb:N".
std::string variable_key(const ir::OptionField& field) {
  const bool is_switch = field.kind == ir::OptionKind::kSwitch;
  const std::string value = field.kind == ir::OptionKind::kReal ? "X" : "N";
  return std::string(field.own.name) + ":" + (is_switch ? "True" : value);
}

/// The default of an option; empty where the option is off.
std::string variable_default(const TopicKey& key) {
  const ir::JsonValue value = key.field->get(key.part->usual());
  if (key.field->kind == ir::OptionKind::kBytes && !value.is_null()) {
    return std::to_string(value.as_integer().value_or(0) / kMiB);
  }
  return {};
}

/// A key of an option's value, with the name that the framework itself gives it.
std::string key_line(const TopicKey& key, std::size_t width) {
  const ir::OptionField& field = *key.field;
  if (!field.in_spec) {
    return line_of("    " + variable_key(field),
                   with_default(lower_sentence(field.help), variable_default(key)), width);
  }
  const std::string usual = default_of({.part = key.part, .field = key.field});
  const bool off = usual == "no" || usual == "none" || usual.empty();
  std::string text = with_default(lower_sentence(field.help), off ? "" : usual);
  text += field.own.name.empty() ? "" : " (" + std::string(field.own.name) + ")";
  return line_of("    " + key_help(*key.part, field), text, width);
}

}  // namespace

std::string program_help(std::span<const Command> commands, const Terminal& terminal) {
  std::string text =
      "headroom says whether a transformer model fits on GPUs, how fast it trains, and\n"
      "which plan is best.\n\n"
      "usage: headroom VERB [ARGUMENTS] [OPTIONS]\n\n";
  for (const Command& command : commands) {
    text += line_of("  " + std::string(command.verb.name), std::string(command.verb.summary),
                    terminal.width, kVerbColumns);
  }
  text +=
      "\n  headroom VERB --help         the usual options of a verb, with defaults\n"
      "  headroom VERB --help TOPIC   more: lora, hardware, a framework, all ...\n"
      "  headroom --version\n\n"
      "exit codes: 0 yes or done, 1 no (does not fit, or probably not), 2 wrong use,\n"
      "            3 bad input, 4 environment (an unreadable file, a missing part),\n"
      "            5 a bug\n\n"
      "example: headroom fit llama-3.1-8b --gpu a100-80gb\n";
  return text;
}

std::string verb_help(const VerbSpec& verb, const Terminal& terminal) {
  const std::string name(verb.name);
  std::string text = "usage: headroom " + name;
  text += verb.positionals.empty() || verb.takes_command ? "" : " " + verb.positionals;
  text += " [OPTIONS]" + (verb.takes_command ? " " + verb.positionals : "") + "\n\n" +
          wrap(verb.summary, terminal.width, 0) + "\n";
  if (!verb.detail.empty()) {
    text += "\n" + wrap(verb.detail, terminal.width, 0) + "\n";
  }
  text += "\n";
  const std::vector<HelpTopic> topics = topics_of(verb);
  for (const std::span<const OptionSpec> options :
       {std::span<const OptionSpec>(verb.options), common_options()}) {
    for (const OptionSpec& option : options) {
      const bool shown = !option.hidden && (topics.empty() || is_usual(option));
      text += shown ? option_line(option, terminal.width) : "";
    }
  }
  if (!topics.empty()) {
    text += "\nMore options and the keys of each option: headroom " + name + " --help TOPIC\n";
  }
  for (const HelpTopic& topic : topics) {
    text += topic_line(topic, terminal.width);
  }
  text += "\nSizes take units: 80GiB is 80 * 2^30 bytes, 80GB is 80 * 10^9.\n\nexample: headroom " +
          verb.example + "\n";
  return text;
}

std::string topic_help(const VerbSpec& verb, const HelpTopic& topic, const Terminal& terminal) {
  std::string text = "headroom " + std::string(verb.name) + " --help " + topic.name + "\n\n";
  text += topic.title.empty() ? "" : wrap(topic.title, terminal.width, 0) + "\n\n";
  const bool has_own_names = std::ranges::any_of(topic.options, [](const OptionSpec* option) {
    return std::ranges::any_of(keys_of(*option), [](const TopicKey& key) {
      return key.field->in_spec && !key.field->own.name.empty();
    });
  });
  text += has_own_names ? "In parentheses: the framework's own name of a key.\n\n" : "";
  for (const OptionSpec* const option : topic.options) {
    text += option_line(*option, terminal.width);
    for (const TopicKey& key : keys_of(*option)) {
      text += key_line(key, terminal.width);
    }
  }
  const std::string more = pages_beside(verb, topic);
  return text + (more.empty() ? "" : "\n" + wrap(more, terminal.width, 0) + "\n");
}

}  // namespace headroom::cli
