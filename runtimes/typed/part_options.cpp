#include "runtimes/typed/part_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtimes/registry.h"

namespace headroom::ir {

PartPlace place_of(const PlanPart& part) {
  const auto has_one_value = [](const OptionField& field) {
    return !field.in_spec && !field.option.empty();
  };
  if (std::ranges::any_of(part.fields, has_one_value)) {
    return PartPlace::kFirst;
  }
  return part.precision != nullptr ? PartPlace::kBeforePrecision : PartPlace::kLast;
}

bool is_keyed(const PlanPart& part, std::string_view option) {
  return std::ranges::any_of(part.fields, [option](const OptionField& field) {
    return field.in_spec && field.option == option;
  });
}

std::vector<std::string_view> option_names(const PlanPart& part) {
  std::vector<std::string_view> names;
  for (const bool keyed : {false, true}) {
    for (const OptionField& field : part.fields) {
      if (field.in_spec == keyed && !field.option.empty() &&
          std::ranges::find(names, field.option) == names.end()) {
        names.push_back(field.option);
      }
    }
  }
  return names;
}

std::vector<ReadableFile> readable_files() {
  std::vector<ReadableFile> files;
  for (const Runtime* const runtime : runtimes()) {
    for (const ConfigurationFormat& format : runtime->configuration_formats()) {
      if (!format.option.empty()) {
        files.push_back({.runtime = runtime, .format = format});
      }
    }
  }
  return files;
}

std::vector<OptionValue> options_of_part(const PlanPart& part, const ParallelPlan& plan) {
  const ParallelPlan& usual = part.usual();
  if (!part.has(plan) ||
      (part.runtime == ParallelPlan{}.runtime && same_options(part.fields, plan, usual))) {
    return {};
  }
  std::vector<OptionValue> options;
  for (const std::string_view option : option_names(part)) {
    const bool asks = option == part.option;  // It requests the part itself.
    if (is_keyed(part, option)) {
      std::string text = spec_text(part.fields, option, plan, usual);
      if (asks || !text.empty()) {
        options.push_back({std::string(option), std::move(text)});
      }
      continue;
    }
    for (const OptionField& field : part.fields) {
      if (!field.in_spec && field.option == option && (asks || !field.same(plan, usual))) {
        options.push_back({std::string(option), field.kind == OptionKind::kSwitch
                                                    ? ""
                                                    : value_text(field, field.get(plan))});
      }
    }
  }
  return options;
}

}  // namespace headroom::ir
