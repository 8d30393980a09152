#include "cli/synonyms.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtimes/interface/synonyms.h"

namespace headroom::cli {
namespace {

using ir::Synonym;

/// In lower case, with - for _.
std::string plain_spelling(std::string_view text) {
  std::string plain(text);
  std::ranges::transform(plain, plain.begin(), [](unsigned char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  return plain;
}

const OptionSpec* find_option(const VerbSpec& verb, std::string_view name) {
  const auto found = std::ranges::find(verb.options, name, &OptionSpec::name);
  return found == verb.options.end() ? nullptr : &*found;
}

/// An option that is not another spelling itself.
const OptionSpec* find_shown(const VerbSpec& verb, std::string_view name) {
  const OptionSpec* const option = find_option(verb, name);
  return option == nullptr || option->hidden ? nullptr : option;
}

/// The option that a row means. A row that differs in its value only means none here.
const OptionSpec* find_meant(const VerbSpec& verb, const Synonym& row) {
  return row.name.empty()     ? nullptr
         : row.of_a_framework ? find_option(verb, row.option)
                              : find_shown(verb, row.option);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Rows for --lora are those of --qlora as well, whose value has the same keys.
bool is_row_of(const Synonym& row, std::string_view option) {
  return row.option == option || (row.option == "lora" && option == "qlora");
}

/// One part of a value between commas; nothing if it changes no prediction.
std::optional<std::string> own_part(std::string_view option, const std::string& part) {
  const std::string plain = plain_spelling(part);
  const std::string key = plain.substr(0, plain.find('='));
  const std::string value = part.size() > key.size() ? part.substr(key.size()) : "";
  for (const Synonym& row : ir::synonyms()) {
    if (!is_row_of(row, option) || row.said.empty()) {
      continue;
    }
    if (row.said == "N" && is_number(part)) {
      return std::string(row.means) + "=" + part;
    }
    if (row.ignored && (row.said == plain || row.said == key)) {
      return std::nullopt;
    }
    if (!row.ignored && row.said == key) {
      return std::string(row.means) + value;
    }
  }
  // Words of the tables have dashes: "adamw_8bit" is adamw-8bit.
  const bool has_words = std::ranges::any_of(ir::synonyms(), [&](const Synonym& row) {
    return row.option == option && !row.said.empty() && row.option != "lora";
  });
  return has_words ? plain : part;
}

/// Puts the key of a row before those of its option's value, which win if they name it again.
void set_key(const Synonym& row, const std::string& given, Arguments& arguments) {
  const std::string option(row.option == "lora" && arguments.has("qlora") ? "qlora" : row.option);
  const std::string others = arguments.value(option).value_or("");
  const bool is_new = !arguments.has(option);
  arguments.remove(row.name);
  arguments.remove(option);
  arguments.set(option, std::string(row.key) + "=" + given + (others.empty() ? "" : "," + others));
  if (is_new) {
    arguments.set_typed_name(option, row.name);
  }
}

}  // namespace

std::string own_value(std::string_view option, const std::string& value) {
  const bool any = std::ranges::any_of(ir::synonyms(), [&](const Synonym& row) {
    return is_row_of(row, option) && !row.said.empty();
  });
  if (!any || value.empty()) {
    return value;
  }
  std::string text;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    const std::optional<std::string> part = own_part(option, value.substr(begin, end - begin));
    if (part) {
      text += (text.empty() ? "" : ",") + *part;
    }
    begin = end + 1;
  }
  return text;
}

std::vector<OptionSpec> synonym_specs(const VerbSpec& verb) {
  std::vector<OptionSpec> specs;
  for (const Synonym& row : ir::synonyms()) {
    const OptionSpec* const meant = find_meant(verb, row);
    const bool taken = find_option(verb, row.name) != nullptr ||
                       std::ranges::find(specs, row.name, &OptionSpec::name) != specs.end();
    if (meant == nullptr || taken) {
      continue;
    }
    specs.push_back({.name = row.name,
                     .value = row.means.empty() ? meant->value : "",
                     .fallback = "",
                     .help = meant->help,
                     .hidden = true});
  }
  return specs;
}

std::string_view meant_option(const VerbSpec& verb, std::string_view name) {
  if (find_shown(verb, name) != nullptr) {
    return name;
  }
  const auto row = std::ranges::find_if(ir::synonyms(), [&](const Synonym& one) {
    return one.name == name && find_meant(verb, one) != nullptr;
  });
  return row == ir::synonyms().end() ? name : row->option;
}

Result<Arguments> with_synonyms(const VerbSpec& verb, const Arguments& arguments) {
  Arguments replaced = arguments;
  for (const Synonym& row : ir::synonyms()) {
    const std::optional<std::string> given = arguments.value(row.name);
    if (!given || find_meant(verb, row) == nullptr || find_shown(verb, row.name) != nullptr) {
      continue;
    }
    if (!row.key.empty()) {
      set_key(row, *given, replaced);
      continue;
    }
    if (const std::string other = replaced.typed_name(row.option); replaced.has(row.option)) {
      return Error::invalid_argument(row.name, "and --" + other + " set the same option", {},
                                     "leave out --" + std::string(row.name) + " or --" + other);
    }
    replaced.remove(row.name);
    replaced.set(row.option, row.means.empty() ? *given : std::string(row.means));
    replaced.set_typed_name(row.option, row.name);
  }
  for (const OptionSpec& spec : verb.options) {
    if (const std::optional<std::string> value = replaced.value(spec.name)) {
      replaced.remove(spec.name);
      replaced.set(spec.name, own_value(spec.name, *value));
    }
  }
  return replaced;
}

}  // namespace headroom::cli
