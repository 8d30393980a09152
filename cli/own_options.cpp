#include "cli/own_options.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cli/option_text.h"
#include "cli/plan_options.h"
#include "cli/scalars.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

/// A row that an option of another name sets.
struct OwnRow {
  const ir::PlanPart* part = nullptr;
  const ir::OptionField* field = nullptr;
  bool own = false;  ///< The name is the framework's own, and so may be the spelling of the value.
};

/// A framework's own argument, or a key that is an option of `plan`, and the rows that it can mean.
struct OwnOption {
  std::vector<OwnRow> rows;
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

/// A key that `headroom plan` has as an option: "--tp 8" is "--megatron tp=8" as well.
bool is_search_key(const ir::PlanPart& part, const ir::OptionField& field) {
  return field.in_spec && field.searched && field.option == part.option &&
         std::ranges::find(plan_option_specs(), plain_key(field.key), &OptionSpec::name) ==
             plan_option_specs().end();
}

/// The options, each with all rows of its name. Names are those of the tables or in `names`.
class OwnOptions {
 public:
  OwnOptions() {
    for (const ir::PlanPart* const part : ir::framework_parts()) {
      for (const ir::OptionField& field : part->fields) {
        std::string_view own = field.own.name;
        own.remove_prefix(own.starts_with("--") ? 2 : 0);
        if (is_option(field)) {
          add(own, {.part = part, .field = &field, .own = true});
        }
        if (is_search_key(*part, field) && plain_key(field.key) != own) {
          add(names_.emplace_back(plain_key(field.key)), {.part = part, .field = &field});
        }
      }
    }
  }
  [[nodiscard]] const std::vector<OwnOption>& all() const { return all_; }

 private:
  void add(std::string_view name, const OwnRow& row) {
    const auto found = std::ranges::find_if(
        all_, [name](const OwnOption& option) { return option.spec.name == name; });
    if (found != all_.end()) {
      found->rows.push_back(row);
      return;
    }
    const ir::OptionField& field = *row.field;
    const bool is_switch = field.kind == ir::OptionKind::kSwitch;
    const bool flag =
        row.own && is_switch && field.own.on.empty() && field.own.name.starts_with("--");
    all_.push_back({.rows = {row},
                    .spec = {.name = name,
                             .value = flag ? "" : "VALUE",
                             .fallback = "",
                             .help = field.help,
                             .hidden = true,
                             .bare = is_switch && !row.own}});
  }

  std::deque<std::string> names_;  ///< Never moved.
  std::vector<OwnOption> all_;
};

const std::vector<OwnOption>& own_options() {
  static const OwnOptions options;
  return options.all();
}

/// Of several rows, the one whose framework is named by --runtime or reads the parts that other
/// options ask for; otherwise the first.
const OwnRow& meant_row(const OwnOption& own, const Arguments& arguments) {
  const std::vector<const ir::PlanPart*> parts = ir::framework_parts();
  const auto reads_all = [&](const OwnRow& row) {
    const ir::Runtime* const runtime = ir::find_runtime(row.part->runtime);
    const std::optional<std::string> named = arguments.value("runtime");
    if (runtime == nullptr || (named && *named != runtime->name())) {
      return false;
    }
    const auto read = runtime->parts();
    return std::ranges::all_of(parts, [&](const ir::PlanPart* part) {
      return !arguments.has(part->option) || std::ranges::find(read, part) != read.end();
    });
  };
  const auto found = std::ranges::find_if(own.rows, reads_all);
  return found == own.rows.end() ? own.rows.front() : *found;
}

/// The option's value for an argument with the given value: "tp=8", or only "8" if the row has an
/// option of its own.
Result<std::string> option_value(const OwnOption& own, const OwnRow& row,
                                 const std::string& given) {
  const ir::OptionField& field = *row.field;
  std::string value = given;
  if (row.own && field.own.negated) {
    value = given.empty() || given == "true" || given == "True" ? "no" : "yes";
  } else if (row.own && !field.own.on.empty()) {
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
    const OwnRow& row = meant_row(own, replaced);
    const Result<std::string> value = option_value(own, row, *given);
    if (!value) {
      return value.error();
    }
    const std::string_view option = row.field->option;
    const std::optional<std::string> before = replaced.value(option);
    if (before && !row.field->in_spec) {
      const std::string other = replaced.typed_name(option);
      return Error::invalid_argument(
          own.spec.name, "and --" + other + " set the same option", {},
          "leave out --" + std::string(own.spec.name) + " or --" + other);
    }
    const bool keyed = row.field->in_spec;
    replaced.set_typed_name(option, own.spec.name,
                            keyed ? plain_key(row.field->key) : std::string());
    replaced.remove(own.spec.name);
    replaced.remove(option);
    replaced.set(option, before && !before->empty() ? *before + "," + *value : *value);
  }
  return replaced;
}

void remove_own_option(std::string_view name, Arguments& arguments) {
  arguments.remove(name);
  const auto own = std::ranges::find_if(
      own_options(), [name](const OwnOption& option) { return option.spec.name == name; });
  if (own == own_options().end()) {
    return;
  }
  const ir::OptionField& field = *meant_row(*own, arguments).field;
  const std::optional<std::string> given = arguments.value(field.option);
  if (!given) {
    return;
  }
  arguments.remove(field.option);
  if (!field.in_spec) {
    return;
  }
  const std::string key = plain_key(field.key);
  std::string rest;
  for (const std::string& part : split_at(*given, ',')) {
    if (part.substr(0, part.find('=')) != key) {
      rest += (rest.empty() ? "" : ",") + part;
    }
  }
  // An option without keys still says which framework is meant.
  arguments.set(field.option, rest);
}

}  // namespace headroom::cli
