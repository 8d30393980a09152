#include "cli/app.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/commands/verbs.h"
#include "cli/error_json.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/own_options.h"
#include "cli/plan_file.h"
#include "cli/shell_words.h"
#include "cli/synonyms.h"
#include "model_ir/plan/plan_words.h"

namespace headroom::cli {
namespace {

std::vector<Command> commands() {
  return {fit_command(),       plan_command(),     explain_command(), compare_command(),
          sweep_command(),     timeline_command(), graph_command(),   emit_command(),
          dryrun_command(),    snapshot_command(), catalog_command(), validate_command(),
          calibrate_command(), import_command(),   weights_command()};
}

/// The option among those that choose `command` that was typed; nothing if none was.
std::optional<std::string_view> choosing_option(const Command& command,
                                                std::span<const std::string> words) {
  const auto chosen = std::ranges::find_if(command.when, [words](std::string_view option) {
    return std::ranges::any_of(words, [option](const std::string& word) {
      return word.substr(0, word.find('=')) == "--" + std::string(option);
    });
  });
  return chosen == command.when.end() ? std::nullopt : std::optional(*chosen);
}

/// Whether `command`, one of several of its verb, answers to these words.
bool is_asked(const Command& command, std::span<const std::string> words) {
  const bool chosen = choosing_option(command, words).has_value();
  if (command.unless_word.empty()) {
    return chosen;
  }
  const Result<Arguments> typed = parse_arguments(command.verb, words);
  const std::vector<std::string> given = typed ? typed->positionals() : std::vector<std::string>();
  if (!given.empty() && given.front() == command.unless_word) {
    return false;
  }
  return chosen || given.size() == 1;
}

/// The command that answers: that of the verb, or another one that an option asks for.
std::optional<Command> command_for(std::string_view verb, std::span<const std::string> rest) {
  std::optional<Command> usual;
  std::vector<Command> all = commands();
  for (const Command& other :
       {explain_oom_command(), validate_plan_command(), validate_executor_command(),
        fit_program_command(), timeline_program_command()}) {
    all.push_back(other);
  }
  for (Command& command : all) {
    if (command.verb.name != verb) {
      continue;
    }
    if (command.when.empty()) {
      usual = std::move(command);
    } else if (is_asked(command, own_words(command.verb, rest))) {
      return std::move(command);
    }
  }
  return usual;
}

Result<ColorChoice> read_color(const Arguments& arguments) {
  const std::string text = arguments.value("color").value_or("auto");
  if (text == "auto") {
    return ColorChoice::kAuto;
  }
  if (text == "always") {
    return ColorChoice::kAlways;
  }
  if (text == "never") {
    return ColorChoice::kNever;
  }
  return Error::invalid_argument("color", text, "auto, always or never");
}

/// What is asked for in JSON gets the error there, with the notes so far; people read it on stderr.
ExitCode report(const Error& error, const Context& context) {
  if (context.json) {
    context.out << error_json(error, context.notes->lines);
  }
  context.err << error_text(error);
  return exit_code_of(error.code);
}

Error unknown_verb(const std::string& verb) {
  std::vector<std::string> known;
  for (const Command& command : commands()) {
    known.emplace_back(command.verb.name);
  }
  const std::optional<std::string> closest = closest_word(verb, known);
  return Error::invalid_argument("VERB", verb, "one of " + ir::join(known),
                                 closest ? "use headroom " + *closest : "see headroom --help");
}

/// Options before the verb: the command line with the verb in front.
Error options_first(std::span<const std::string> arguments) {
  std::vector<std::string> known;
  for (const Command& command : commands()) {
    known.emplace_back(command.verb.name);
  }
  const auto verb = std::ranges::find_first_of(arguments, known);
  std::string line = "headroom";
  const auto add = [&line](auto begin, auto end) {
    for (; begin != end; ++begin) {
      line += " " + shell_word(*begin);
    }
  };
  if (verb == arguments.end()) {
    line += " VERB";
  }
  add(verb, arguments.end());
  add(arguments.begin(), verb);
  return Error::invalid_argument(arguments[0], "stands before the verb", {},
                                 "put options after the verb: " + line);
}

/// Returns the word after --help: "megatron" in "fit --help megatron".
std::optional<std::string> asked_topic(std::span<const std::string> rest) {
  const auto help = std::ranges::find_if(
      rest, [](const std::string& word) { return word == "--help" || word == "-h"; });
  const bool more = help != rest.end() && help + 1 != rest.end() && (*(help + 1))[0] != '-';
  return more ? std::optional(*(help + 1)) : std::nullopt;
}

Result<std::string> help_of(const VerbSpec& verb, std::span<const std::string> rest,
                            const Terminal& terminal) {
  const std::optional<std::string> name = asked_topic(rest);
  if (!name) {
    return verb_help(verb, terminal);
  }
  const Result<HelpTopic> topic = find_topic(verb, *name);
  return topic ? Result<std::string>(topic_help(verb, *topic, terminal))
               : Result<std::string>(topic.error());
}

/// The error about an option that the verb lacks: whether `fit` or `plan` has it, or else the help
/// that lists the verb's own options.
Error with_other_verb(const VerbSpec& verb, Error error) {
  const std::string name =
      error.key.substr(std::min(error.key.find_first_not_of('-'), error.key.size()));
  if (!error.got.starts_with("is not an option of")) {
    return error;
  }
  for (const Command& other : {fit_command(), plan_command()}) {
    const bool has = std::ranges::any_of(other.verb.options, [&](const OptionSpec& option) {
      return option.name == name && !option.hidden;
    });
    if (has && other.verb.name != verb.name) {
      error.fix = "headroom " + std::string(other.verb.name) + " has it; " +
                  full_help_command(verb) + " lists those of " + std::string(verb.name);
      return error;
    }
  }
  if (error.fix.empty()) {
    error.fix = full_help_command(verb) + " lists its options";
  }
  return error;
}

/// `with_plan_file`, with errors about options as they were typed.
Result<Arguments> with_filed(const VerbSpec& verb, const Arguments& arguments) {
  Result<Arguments> filed = with_plan_file(verb, arguments);
  return filed ? filed : arguments.as_typed(filed.error());
}

/// A command without `--` before it, whose options would be taken for ours: the line as it should
/// be typed, if the first word of the command can be told.
Error command_without_dashes(const VerbSpec& verb, std::span<const std::string> rest) {
  std::string line;
  for (auto word = rest.begin(); word != rest.end() && line.empty(); ++word) {
    const Result<Arguments> before = parse_arguments(verb, {rest.begin(), word});
    const Result<Arguments> after = parse_arguments(verb, {rest.begin(), word + 1});
    if (before && after && after->positionals().size() > before->positionals().size()) {
      line = "headroom " + std::string(verb.name);
      for (auto at = rest.begin(); at != rest.end(); ++at) {
        line += (at == word ? " -- " : " ") + shell_word(*at);
      }
    }
  }
  return Error::invalid_argument(
      "COMMAND", "nothing", "-- and the command to start",
      "put -- before it: " + (line.empty() ? "headroom " + std::string(verb.example) : line));
}

/// The error about an option that the verb has, but not together with the one that chose `command`.
Error with_own_variant(const Command& command, std::span<const std::string> words, Error error) {
  const std::optional<std::string_view> chosen = choosing_option(command, words);
  if (chosen && error.got.starts_with("is not an option of")) {
    const std::string option = "--" + std::string(*chosen);
    error.got = "does not go together with " + option;
    error.fix = "leave it out, or leave out " + option;
  }
  return error;
}

/// The arguments in the program's own spelling, whatever spelling was typed.
Result<Arguments> read_own_arguments(const VerbSpec& verb, std::span<const std::string> rest) {
  VerbSpec all = verb;
  const std::vector<OptionSpec> others = synonym_specs(verb);
  all.options.insert(all.options.end(), others.begin(), others.end());
  const Result<Arguments> typed = parse_arguments(all, rest);
  if (!typed) {
    return with_other_verb(verb, typed.error());
  }
  Result<Arguments> plain = with_synonyms(all, *typed);
  if (!plain || !verb.takes_own_options) {
    return plain && !plain->has("help") ? with_filed(verb, *plain) : plain;
  }
  const Result<Arguments> own = with_own_options(*plain);
  if (!own) {
    return plain->as_typed(own.error());
  }
  return own->has("help") ? own : with_filed(verb, *own);
}

/// The same with the user's own command, if the verb takes one.
Result<Arguments> read_arguments(const VerbSpec& verb, std::span<const std::string> rest) {
  const std::span<const std::string> own = own_words(verb, rest);
  const bool asks_help = std::ranges::any_of(
      own, [](const std::string& word) { return word == "--help" || word == "-h"; });
  if (verb.takes_command && own.size() + 1 >= rest.size() && !asks_help) {
    return command_without_dashes(verb, own);
  }
  Result<Arguments> arguments = read_own_arguments(verb, own);
  if (arguments && own.size() < rest.size()) {
    const auto command = rest.subspan(own.size() + 1);
    arguments->set_command({command.begin(), command.end()});
  }
  return arguments;
}

ExitCode run_command(const Command& command, std::span<const std::string> rest, std::ostream& out,
                     std::ostream& err) {
  // Determined before any error can occur, so that every error has the right form.
  const std::span<const std::string> own = own_words(command.verb, rest);
  const bool json = std::ranges::find(own, "--json") != own.end();
  Notes notes;
  const Context plain{.out = out,
                      .err = err,
                      .terminal = plain_terminal(ColorChoice::kNever),
                      .json = json,
                      .notes = &notes};

  const Result<Arguments> arguments = read_arguments(command.verb, rest);
  if (!arguments) {
    return report(with_own_variant(command, own, arguments.error()), plain);
  }
  const Result<ColorChoice> color = read_color(*arguments);
  if (!color) {
    return report(color.error(), plain);
  }
  const Terminal terminal = &out == &std::cout ? standard_terminal(*color) : plain_terminal(*color);
  if (arguments->has("help")) {
    const Result<std::string> help = help_of(command.verb, own, terminal);
    if (!help) {
      return report(help.error(), plain);
    }
    out << *help;
    return ExitCode::kYes;
  }
  const Context context{
      .out = out, .err = err, .terminal = terminal, .json = json, .notes = &notes};
  if (Status writable = check_output(*arguments); !writable) {
    return report(arguments->as_typed(writable.error()), context);
  }
  const Result<ExitCode> code = command.run(*arguments, context);
  return code ? *code : report(arguments->as_typed(code.error()), context);
}

}  // namespace

void add_notes(const Context& context, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    context.err << "note: " << note << "\n";
    if (context.notes != nullptr) {
      context.notes->lines.push_back(note);
    }
  }
}

ExitCode run(std::span<const std::string> arguments, std::ostream& out, std::ostream& err) {
  const std::string verb = arguments.empty() ? "--help" : arguments[0];
  if (verb == "--version") {
    out << "headroom " HEADROOM_VERSION "\n";
    return ExitCode::kYes;
  }
  if (verb == "help" && arguments.size() > 1) {  // "help fit megatron" is "fit --help megatron".
    std::vector<std::string> turned(arguments.begin() + 1, arguments.end());
    turned.insert(turned.begin() + 1, "--help");
    return run(turned, out, err);
  }
  if (verb == "--help" || verb == "-h" || verb == "help") {
    const Terminal terminal = &out == &std::cout ? standard_terminal(ColorChoice::kAuto)
                                                 : plain_terminal(ColorChoice::kNever);
    // If help was requested, it goes to standard output; if the verb is missing, to standard error.
    (arguments.empty() ? err : out) << program_help(commands(), terminal);
    return arguments.empty() ? ExitCode::kUsage : ExitCode::kYes;
  }
  if (const std::optional<Command> command = command_for(verb, arguments.subspan(1))) {
    return run_command(*command, arguments.subspan(1), out, err);
  }
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  Notes notes;
  return report(verb.starts_with('-') ? options_first(arguments) : unknown_verb(verb),
                {.out = out,
                 .err = err,
                 .terminal = plain_terminal(ColorChoice::kNever),
                 .json = json,
                 .notes = &notes});
}

}  // namespace headroom::cli
