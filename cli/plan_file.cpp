#include "cli/plan_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/calibration.h"
#include "cli/host_options.h"
#include "cli/question.h"
#include "cli/routing.h"
#include "cli/scalars.h"
#include "cli/sweep_answers.h"
#include "cli/time_options.h"
#include "model_ir/base/file.h"
#include "model_ir/plan/plan_words.h"

namespace headroom::cli {
namespace {

/// A path that means the same in every folder.
std::string whole_path(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
  return ignored ? path : whole.lexically_normal().string();
}

/// The model as MODEL would name it from any folder; empty for standard input.
std::string model_name(const LoadedModel& model) {
  if (model.origin == "catalogue") {
    return model.label;
  }
  return model.origin == "-" ? "" : whole_path(model.origin);
}

std::string device_name(const Arguments& arguments, const cost::DeviceSpec& device) {
  const std::string typed = arguments.value("gpu").value_or(device.name);
  return typed.ends_with(".json") ? whole_path(typed) : device.name;
}

/// Whether --gpu was typed and means another GPU than the plan file's, or more than that one.
bool has_other_device(const Arguments& arguments, const std::string& filed) {
  const std::optional<std::string> typed = arguments.value("gpu");
  if (!typed || filed.empty() || *typed == filed) {
    return false;
  }
  const std::string device = gpu_of_name(arguments, filed);
  return std::ranges::any_of(split_at(*typed, ','), [&](const std::string& one) {
    return gpu_of_name(arguments, one) != device;
  });
}

const OptionSpec* option_of(const VerbSpec& verb, std::string_view name) {
  const auto found = std::ranges::find(verb.options, name, &OptionSpec::name);
  return found == verb.options.end() ? nullptr : &*found;
}

/// The options that the assumptions of a plan file can have.
std::vector<std::string> filed_assumptions() {
  std::vector<std::string> known = {"gpu"};
  for (const OptionSpec& one : assumption_options()) {
    known.emplace_back(one.name);
  }
  return known;
}

/// The parsed content of a plan file; of a sweep's answers, the one that the command line means.
Result<ir::PlanText> read_plan_text(const VerbSpec& verb, const Arguments& arguments,
                                    const std::string& text, const std::string& name) {
  const std::optional<std::vector<ir::JsonValue>> answers = sweep_answers(text);
  if (!answers) {
    return ir::PlanText::parse(text, name);
  }
  const std::vector<std::string>& given = arguments.positionals();
  const std::optional<std::string> gpu = arguments.value("gpu");
  const bool has_model = verb.model_at && given.size() > *verb.model_at;
  const Result<ir::JsonValue> chosen =
      chosen_answer(*answers,
                    {.model = has_model ? std::optional(given[*verb.model_at]) : std::nullopt,
                     .gpu = gpu,
                     .device = gpu ? std::optional(gpu_of_name(arguments, *gpu)) : std::nullopt,
                     .gpus = arguments.value("gpus")},
                    name);
  return chosen ? Result<ir::PlanText>(ir::PlanText(*chosen, name))
                : Result<ir::PlanText>(chosen.error());
}

}  // namespace

std::string gpu_of_name(const Arguments& arguments, const std::string& name) {
  if (name.ends_with(".json")) {
    return whole_path(name);
  }
  const Result<cost::DeviceSpec> device = find_gpu(arguments, name);
  return device ? device->name : name;
}

Status check_filed_option(const std::string& file, const std::string& section,
                          const std::string& option, const std::vector<std::string>& known) {
  if (std::ranges::find(known, option) != known.end()) {
    return ok();
  }
  return Error::invalid_input(file, "/" + section + "/" + option, "an option of that name",
                              "one of " + ir::join(known), ir::suggestion(option, known));
}

std::string typed_instead(const std::string& file, const std::string& name, const std::string& said,
                          const std::string& typed) {
  return file + " has " + name + " " + said + ", the command line " + name + " " + typed +
         ", which is used";
}

const std::vector<OptionSpec>& assumption_options() {
  static const std::vector<OptionSpec> options = [] {
    std::vector<OptionSpec> all;
    for (const OptionSpec& option : device_options()) {
      if (option.name != "gpu") {
        all.push_back(option);
      }
    }
    for (const std::vector<OptionSpec>& some :
         {host_options(), time_options(), calibration_options()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    all.push_back(routing_option());
    for (const OptionSpec& option : model_options()) {
      if (option.name != "ignored-keys") {
        all.push_back(option);
      }
    }
    return all;
  }();
  return options;
}

ir::PlanFile plan_file_of(const Arguments& arguments, const LoadedModel& model,
                          const cost::DeviceSpec* device, const ir::ParallelPlan& plan) {
  ir::PlanFile file{.model = model_name(model),
                    .device = device != nullptr ? device_name(arguments, *device) : "",
                    .assumptions = {},
                    .search = {},
                    .plan = plan};
  for (const OptionSpec& option : assumption_options()) {
    if (const std::optional<std::string> value = arguments.value(option.name)) {
      const bool is_file = option.value == "FILE" || value->ends_with(".json");
      file.assumptions.push_back(
          {.option = std::string(option.name), .value = is_file ? whole_path(*value) : *value});
    }
  }
  return file;
}

Result<Arguments> with_plan_file(const VerbSpec& verb, Arguments arguments) {
  const std::optional<std::string> path = arguments.value("plan");
  if (!path || option_of(verb, "plan") == nullptr) {
    return arguments;
  }
  const std::vector<std::string>& given = arguments.positionals();
  if (*path == "-" && std::ranges::find(given, "-") != given.end()) {
    return Error::invalid_argument("plan", "-, and MODEL is - as well",
                                   "one thing to read from standard input",
                                   "leave out MODEL, or name the file of one of them");
  }
  const std::string name = *path == "-" ? "standard input" : *path;
  const Result<std::string> text = read_file(*path == "-" ? "/dev/stdin" : *path);
  if (!text) {
    return text.error();
  }
  Result<ir::PlanText> content = read_plan_text(verb, arguments, *text, name);
  if (!content) {
    return std::move(content).error();
  }
  const Result<ir::PlanFile> file = content->read();
  if (!file) {
    return file.error();
  }
  PlanDocument document{.name = name, .content = std::move(content).value(), .notes = {}};
  if (!file->model.empty() && verb.model_at) {
    if (given.size() == *verb.model_at) {
      arguments.add_positional(file->model);
    } else if (given.size() > *verb.model_at && given[*verb.model_at] != file->model) {
      document.notes.push_back(typed_instead(name, "MODEL", file->model, given[*verb.model_at]));
    }
  }
  const bool other_device = has_other_device(arguments, file->device);
  std::vector<ir::Assumption> assumptions = file->assumptions;
  if (!file->device.empty()) {
    assumptions.insert(assumptions.begin(), {.option = "gpu", .value = file->device});
  }
  const std::vector<std::string> known = filed_assumptions();
  for (const ir::Assumption& assumption : assumptions) {
    if (Status valid = check_filed_option(name, "assumptions", assumption.option, known); !valid) {
      return std::move(valid).error();
    }
    if (option_of(verb, assumption.option) == nullptr) {
      continue;
    }
    const std::optional<std::string> typed = arguments.value(assumption.option);
    const auto of_device = options_of_device();
    if (other_device && std::ranges::find(of_device, assumption.option) != of_device.end()) {
      continue;
    }
    if (!typed) {
      arguments.set(assumption.option, assumption.value);
    } else if (*typed != assumption.value && (assumption.option != "gpu" || other_device)) {
      document.notes.push_back(
          typed_instead(name, "--" + assumption.option, assumption.value, *typed));
    }
  }
  arguments.set_plan_document(std::move(document));
  return arguments;
}

}  // namespace headroom::cli
