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
    {{"config-dir", "DIR", "HEADROOM_CONFIG_DIR, then beside the program, then the source tree",
      "folder of the catalogue"},
     {"json", "", "", "print one JSON document instead of text"},
     {"color", "WHEN", "auto", "auto, always or never; NO_COLOR means never"},
     {"help", "", "", "print this help"}}};

/// Where CLI11 stores what it parses. CLI11 keeps pointers, so a slot must not move.
struct Slot {
  const OptionSpec* spec = nullptr;
  std::string text;
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
  const bool is_runtime = std::ranges::any_of(
      ir::runtime_words(), [&](std::string_view word) { return name == "--" + std::string(word); });
  const bool takes_one =
      std::ranges::find(verb.options, "runtime", &OptionSpec::name) != verb.options.end();
  if (is_runtime && takes_one) {
    return Error::invalid_argument(name,
                                   "an option that '" + std::string(verb.name) + "' does not have",
                                   "one of its options", "use --runtime " + name.substr(2));
  }
  const std::optional<std::string> closest = closest_word(name, known);
  return Error::invalid_argument(
      name, "an option that '" + std::string(verb.name) + "' does not have", "one of its options",
      closest ? "use " + *closest : "see headroom " + std::string(verb.name) + " --help");
}

/// The option with which a message of CLI11 begins ("--gpu: 1 required TEXT missing").
std::string named_option(const std::string& message) {
  const std::size_t begin = message.find("--");
  if (begin == std::string::npos) {
    return "arguments";
  }
  return message.substr(begin, message.find_first_of(" :=,", begin) - begin);
}

Error wording_of(const VerbSpec& verb, const CLI::ParseError& fault) {
  const std::string message = fault.what();
  const std::string help = "see headroom " + std::string(verb.name) + " --help";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&fault) == nullptr) {
    return Error::invalid_argument(named_option(message), message, "a known option and its value",
                                   help);
  }
  const bool missing =
      message.find("missing") != std::string::npos || message.find("At least") != std::string::npos;
  return Error::invalid_argument(named_option(message),
                                 missing ? "no value" : "more than one value",
                                 "the option once, with one value", help);
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
    const std::string name = "--" + std::string(spec.name) + (spec.name == "help" ? ",-h" : "");
    slot.option = spec.value.empty() ? app.add_flag(name, slot.flag)->disable_flag_override()
                                     : app.add_option(name, slot.text);
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
    if (slot.option->count() > 0) {
      parsed.set(slot.spec->name, slot.text);
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
