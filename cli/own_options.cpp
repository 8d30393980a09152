#include "cli/own_options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cli/option_text.h"
#include "runtimes/plan_parts.h"

namespace headroom::cli {
namespace {

/// A framework's own argument, and the option that it means.
struct OwnOption {
  const ir::OptionField* field = nullptr;
  OptionSpec spec;
};

/// Whether a framework's own name is an option of the command line: an argument
/// ("--tp-comm-overlap") or a path in a configuration ("zero_optimization.stage"). Names of Python
/// keyword arguments are only keys of an option.
bool is_option(const ir::OptionField& field) {
  const std::string_view name = field.own.name;
  return !field.option.empty() &&
         (name.starts_with("--") || name.find('.') != std::string_view::npos);
}

const std::vector<OwnOption>& own_options() {
  static const std::vector<OwnOption> options = [] {
    std::vector<OwnOption> all;
    for (const ir::PlanPart* const part : ir::framework_parts()) {
      for (const ir::OptionField& field : part->fields) {
        if (!is_option(field)) {
          continue;
        }
        std::string_view name = field.own.name;
        name.remove_prefix(name.starts_with("--") ? 2 : 0);
        const bool flag = field.kind == ir::OptionKind::kSwitch && field.own.on.empty() &&
                          field.own.name.starts_with("--");
        all.push_back({.field = &field,
                       .spec = {.name = name,
                                .value = flag ? "" : "VALUE",
                                .fallback = "",
                                .help = field.help,
                                .hidden = true}});
      }
    }
    return all;
  }();
  return options;
}

/// The option's value for an argument with the given value: "tp=8", or only "8" if the row has an
/// option of its own.
Result<std::string> option_value(const OwnOption& own, const std::string& given) {
  const ir::OptionField& field = *own.field;
  std::string value = given;
  if (field.own.negated) {
    value = given.empty() || given == "true" || given == "True" ? "no" : "yes";
  } else if (!field.own.on.empty()) {
    if (given != field.own.on && given != field.own.off) {
      const std::string off = field.own.off.empty() ? "" : " or " + std::string(field.own.off);
      return Error::invalid_argument(own.spec.name, given, std::string(field.own.on) + off);
    }
    value = given == field.own.on ? "yes" : "no";
  } else if (field.kind == ir::OptionKind::kNames) {
    std::ranges::replace_if(
        value, [](char c) { return c == ',' || c == ' '; }, '+');
  } else if (field.skips_commas) {
    std::erase(value, ',');
  }
  if (const Result<ir::JsonValue> parsed = parse_value(field, own.spec.name, value); !parsed) {
    return parsed.error();
  }
  if (!field.in_spec) {
    return value;
  }
  return plain_key(field.key) + (value.empty() ? "" : "=" + value);
}

}  // namespace

std::span<const OptionSpec> own_option_specs() {
  static const std::vector<OptionSpec> specs = [] {
    std::vector<OptionSpec> all;
    for (const OwnOption& own : own_options()) {
      all.push_back(own.spec);
    }
    return all;
  }();
  return specs;
}

Result<Arguments> with_own_options(const Arguments& arguments) {
  Arguments replaced = arguments;
  for (const OwnOption& own : own_options()) {
    const std::optional<std::string> given = arguments.value(own.spec.name);
    if (!given) {
      continue;
    }
    const Result<std::string> value = option_value(own, *given);
    if (!value) {
      return value.error();
    }
    const std::string_view option = own.field->option;
    const std::optional<std::string> before = replaced.value(option);
    if (before && !own.field->in_spec) {
      return Error::invalid_argument(
          own.spec.name, "and --" + std::string(option) + " set the same option", {},
          "leave out --" + std::string(own.spec.name) + " or --" + std::string(option));
    }
    replaced.remove(own.spec.name);
    replaced.remove(option);
    replaced.set(option, before && !before->empty() ? *before + "," + *value : *value);
  }
  return replaced;
}

}  // namespace headroom::cli
