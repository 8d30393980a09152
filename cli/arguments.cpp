#include "cli/arguments.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include <CLI/CLI.hpp>

#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

constexpr std::array<OptionSpec, 4> kCommon = {
    {{"config-dir", "DIR", "HEADROOM_CONFIG_DIR, then the installed files, then the source tree",
      "folder with the catalogue of models and GPUs"},
     {"json", "", "", "print one JSON document instead of text"},
     {"color", "WHEN", "auto", "auto, always or never; NO_COLOR means never"},
     {"help", "", "", "print this help"}}};

/// Where CLI11 stores what it parses. CLI11 keeps pointers, so a slot must not move.
struct Slot {
  const OptionSpec* spec = nullptr;
  std::string text;
  std::vector<std::string> texts;  ///< The values of an option that may be repeated.
  bool flag = false;
  CLI::Option* option = nullptr;
};

Error unknown_option(const VerbSpec& verb, std::string_view given) {
  std::vector<std::string> known;
  for (const OptionSpec& option : verb.options) {
    known.push_back("--" + std::string(option.name));
  }
  for (const OptionSpec& option : kCommon) {
    known.push_back("--" + std::string(option.name));
  }
  const std::string name(given.substr(0, given.find('=')));
  const std::string is_none = "is not an option of headroom " + std::string(verb.name);
  const bool is_runtime = std::ranges::any_of(
      ir::runtime_words(), [&](std::string_view word) { return name == "--" + std::string(word); });
  const bool takes_one =
      std::ranges::find(verb.options, "runtime", &OptionSpec::name) != verb.options.end();
  if (is_runtime && takes_one) {
    return Error::invalid_argument(
        name, is_none, {},
        "use --runtime " + name.substr(2) + "; --runtime-version says which release");
  }
  const std::optional<std::string> closest = closest_word(name, known);
  // `run` adds the help that lists the options if none is close.
  return Error::invalid_argument(name, is_none, {}, closest ? "use " + *closest : "");
}

/// A second spelling with one letter, as CLI11 takes it: ",-o".
std::string short_name(const OptionSpec& spec) {
  return spec.name == "help" ? ",-h" : spec.name == "output" ? ",-o" : "";
}

/// The option with which a message of CLI11 begins ("--gpu: 1 required TEXT missing").
std::string named_option(const std::string& message) {
  const std::size_t begin = message.find("--");
  if (begin == std::string::npos) {  // "json was given a disallowed flag override"
    return "--" + message.substr(0, message.find(' '));
  }
  return message.substr(begin, message.find_first_of(" :=,", begin) - begin);
}

const OptionSpec* spec_named(const VerbSpec& verb, std::string_view option) {
  for (const std::span<const OptionSpec> options :
       {std::span<const OptionSpec>(verb.options), std::span<const OptionSpec>(kCommon)}) {
    const auto found = std::ranges::find_if(options, [option](const OptionSpec& spec) {
      return option == "--" + std::string(spec.name);
    });
    if (found != options.end()) {
      return &*found;
    }
  }
  return nullptr;
}

Error missing_value(const VerbSpec& verb, const OptionSpec& spec) {
  const std::string option = "--" + std::string(spec.name);
  return Error::invalid_argument(option, "needs a value", {},
                                 "type " + option + " " + std::string(spec.value) + "; headroom " +
                                     std::string(verb.name) + " --help " + std::string(spec.name) +
                                     " says more");
}

/// CLI11 counts the values of an option wrongly, or finds a value behind a flag.
Error wording_of(const VerbSpec& verb, const CLI::ParseError& fault) {
  const std::string message = fault.what();
  const std::string option = named_option(message);
  const std::string help = "headroom " + std::string(verb.name) + " --help";
  const OptionSpec* const spec = spec_named(verb, option);
  if (spec == nullptr || spec->value.empty()) {
    return Error::invalid_argument(option, spec == nullptr ? message : "takes no value", {},
                                   spec == nullptr ? "see " + help : "type " + option + " alone");
  }
  const std::string typed = option + " " + std::string(spec->value);
  if (message.find("missing") == std::string::npos &&
      message.find("At least") == std::string::npos) {
    return Error::invalid_argument(option, "is given more than once", {}, "type it once: " + typed);
  }
  return missing_value(verb, *spec);
}

/// Whether CLI11 took the option that follows for the value of this one: "--gpus --gpu h100".
bool took_option(const Slot& slot) {
  return slot.text.starts_with("--") ||
         std::ranges::any_of(slot.texts,
                             [](const std::string& text) { return text.starts_with("--"); });
}

/// `texts`, a line each.
std::string in_lines(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    all += (all.empty() ? "" : "\n") + text;
  }
  return all;
}

}  // namespace

bool Arguments::has(std::string_view option) const {
  return value(option).has_value();
}

std::optional<std::string> Arguments::value(std::string_view option) const {
  for (const auto& [name, text] : options_) {
    if (name == option) {
      return text;
    }
  }
  return std::nullopt;
}

void Arguments::set(std::string_view option, std::string value) {
  options_.emplace_back(std::string(option), std::move(value));
}

void Arguments::remove(std::string_view option) {
  std::erase_if(options_, [option](const auto& given) { return given.first == option; });
}

std::vector<std::string> Arguments::values_except(std::string_view option) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : options_) {
    if (name != option) {
      values.push_back(value);
    }
  }
  return values;
}

std::string Arguments::typed_name(std::string_view option) const {
  for (const TypedName& typed : typed_) {
    if (typed.option == option && typed.key.empty()) {
      return typed.name;
    }
  }
  return std::string(option);
}

Error Arguments::as_typed(Error error) const {
  for (const TypedName& typed : typed_) {
    if (typed.option != error.key) {
      continue;
    }
    if (typed.key.empty()) {
      error.key = typed.name;
      return error;
    }
    if (error.got.starts_with(typed.key + "=")) {
      error.key = typed.name;
      error.got = error.got.substr(typed.key.size() + 1);
      for (const TypedName& other : typed_) {  // "2,pp=3: ..." is "2 --pp 3: ...".
        const std::string key = "," + other.key + "=";
        const std::size_t at = error.got.find(key);
        if (other.option == typed.option && !other.key.empty() && at != std::string::npos) {
          error.got.replace(at, key.size(), " --" + other.name + " ");
        }
      }
      return error;
    }
  }
  return error;
}

Arguments Arguments::without_first_positional() const {
  Arguments rest = *this;
  if (!rest.positionals_.empty()) {
    rest.positionals_.erase(rest.positionals_.begin());
  }
  return rest;
}

std::span<const OptionSpec> common_options() {
  return kCommon;
}

std::span<const std::string> own_words(const VerbSpec& verb,
                                       std::span<const std::string> arguments) {
  const auto end = verb.takes_command ? std::ranges::find(arguments, "--") : arguments.end();
  return arguments.first(static_cast<std::size_t>(end - arguments.begin()));
}

Result<Arguments> parse_arguments(const VerbSpec& verb, std::span<const std::string> arguments) {
  CLI::App app;
  app.set_help_flag();  // CLI11's help neither wraps nor shows units.
  app.allow_extras();
  std::deque<Slot> slots;
  // There are many other spellings, which are rarely typed. Only those typed are passed to CLI11.
  const auto is_typed = [&](const OptionSpec& spec) {
    return std::ranges::any_of(arguments, [&](std::string_view argument) {
      return argument.substr(0, argument.find('=')) == "--" + std::string(spec.name);
    });
  };
  const auto declare = [&](const OptionSpec& spec) {
    if (spec.hidden && !is_typed(spec)) {
      return;
    }
    Slot& slot = slots.emplace_back();
    slot.spec = &spec;
    const std::string name = "--" + std::string(spec.name) + short_name(spec);
    if (spec.repeats) {
      slot.option = app.add_option(name, slot.texts)->expected(1)->take_all();
    } else {
      slot.option = spec.value.empty()
                        ? app.add_flag(name, slot.flag)->disable_flag_override()
                        : app.add_option(name, slot.text)->expected(spec.bare ? 0 : 1, 1);
    }
  };
  std::for_each(verb.options.begin(), verb.options.end(), declare);
  std::for_each(kCommon.begin(), kCommon.end(), declare);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 expects it so.
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& fault) {
    return wording_of(verb, fault);
  }
  Arguments parsed;
  for (const Slot& slot : slots) {
    if (took_option(slot)) {
      return missing_value(verb, *slot.spec);
    }
    if (slot.option->count() > 0) {
      parsed.set(slot.spec->name, slot.spec->repeats ? in_lines(slot.texts) : slot.text);
    }
  }
  for (const std::string& rest : app.remaining()) {
    if (rest.size() > 1 && rest[0] == '-') {
      return unknown_option(verb, rest);
    }
    parsed.add_positional(rest);
  }
  return parsed;
}

}  // namespace headroom::cli
