#include "cli/framework_options.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "cli/option_text.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

using ir::ParallelPlan;
using ir::PlanPart;
using ir::Runtime;

/// The framework of a plan if the user names none.
const std::string& usual_runtime() {
  static const std::string usual = ParallelPlan{}.runtime;
  return usual;
}

bool reads(const Runtime& runtime, const PlanPart& part) {
  const auto parts = runtime.parts();
  return std::ranges::find(parts, &part) != parts.end();
}

/// Whether the user gave an option of the part, and so implied its framework: the part's own option
/// or a list of keys.
bool is_asked(const OptionReader& reader, const PlanPart& part) {
  return std::ranges::any_of(option_names(part), [&](std::string_view option) {
    return reader.has(option) && (option == part.option || is_keyed(part, option));
  });
}

/// An option that implies one or more frameworks.
struct GivenOption {
  std::string_view name;
  const PlanPart* part = nullptr;    ///< The part to which it belongs,
  const Runtime* runtime = nullptr;  ///< or the framework whose file it names.
};

std::vector<GivenOption> given_options(const Arguments& arguments) {
  std::vector<GivenOption> given;
  for (const PlanPart* const part : ir::framework_parts()) {
    for (const std::string_view option : option_names(*part)) {
      if (arguments.has(option)) {
        given.push_back({.name = option, .part = part});
        break;
      }
    }
  }
  for (const ReadableFile& file : readable_files()) {
    if (arguments.has(file.format.option)) {
      given.push_back({.name = file.format.option, .runtime = file.runtime});
    }
  }
  return given;
}

bool reads(const Runtime& runtime, const GivenOption& option) {
  return option.part != nullptr ? reads(runtime, *option.part) : option.runtime == &runtime;
}

/// Chooses the framework from the given options. The plan's own framework stays if it reads all of
/// them; otherwise it is the first framework with a given option that reads all. Options of the
/// default framework do not change the plan's own framework.
void choose_by_options(const OptionReader& reader, ParallelPlan& plan) {
  std::vector<const PlanPart*> given;
  for (const PlanPart* const part : ir::framework_parts()) {
    if (part->runtime != usual_runtime() && is_asked(reader, *part)) {
      given.push_back(part);
    }
  }
  const auto reads_all = [&given](std::string_view name) {
    const Runtime* const runtime = ir::find_runtime(name);
    return runtime != nullptr && std::ranges::all_of(given, [runtime](const PlanPart* part) {
             return reads(*runtime, *part);
           });
  };
  if (reads_all(plan.runtime)) {
    return;
  }
  for (const PlanPart* const part : given) {
    if (reads_all(part->runtime)) {
      plan.runtime = part->runtime;
      return;
    }
  }
}

void choose_runtime(OptionReader& reader, ParallelPlan& plan) {
  choose_by_options(reader, plan);
  const auto name = [](std::string_view option) {
    return [option](const std::string& text) -> Result<std::string> {
      if (ir::find_runtime(text) != nullptr) {
        return text;
      }
      const std::vector<std::string> known = ir::runtime_names();
      return Error::invalid_argument(option, text, "one of " + ir::join(known),
                                     ir::suggestion(text, known));
    };
  };
  reader.with("runtime", plan.runtime, name("runtime"));
  std::string code = usual_runtime();
  reader.with("model-code", code, name("model-code"));
  if (code == usual_runtime()) {
    return;
  }
  // With this older spelling, `--runtime` named the framework whose sharding options were kept.
  for (const PlanPart* const part : ir::find_runtime(plan.runtime)->parts()) {
    if (part->runtime == plan.runtime && reads(*ir::find_runtime(code), *part)) {
      part->add(plan);
    }
  }
  plan.runtime = code;
}

void read_part(OptionReader& reader, ParallelPlan& plan, const PlanPart& part) {
  for (const std::string_view option : option_names(part)) {
    if (!reader.has(option)) {
      continue;
    }
    if (!part.has(plan) && !is_asked(reader, part)) {
      const std::string own = "--" + std::string(part.option);
      reader.refuse(Error::invalid_argument(
          option, "needs " + own, {}, "add " + own + ", or leave out --" + std::string(option)));
      return;
    }
    part.add(plan);
    if (is_keyed(part, option)) {
      reader.spec(option, {{.fields = part.fields, .of = option, .plan = &plan}});
      continue;
    }
    for (const ir::OptionField& field : part.fields) {
      if (!field.in_spec && field.option == option) {
        reader.field(field, plan);
      }
    }
  }
}

}  // namespace

Status check_one_framework(const Arguments& arguments) {
  const std::vector<GivenOption> given = given_options(arguments);
  const std::vector<const Runtime*> all = ir::runtimes();
  for (std::size_t at = 0; at < given.size(); ++at) {
    for (std::size_t after = at + 1; after < given.size(); ++after) {
      const auto reads_both = [&](const Runtime* runtime) {
        return reads(*runtime, given[at]) && reads(*runtime, given[after]);
      };
      if (std::ranges::none_of(all, reads_both)) {
        const std::string other(given[after].name);
        return Error::invalid_argument(
            given[at].name, "and --" + other + " belong to different frameworks", {},
            "leave out --" + std::string(given[at].name) + " or --" + other);
      }
    }
  }
  return ok();
}

void read_framework(OptionReader& reader, ParallelPlan& plan) {
  const std::vector<const PlanPart*> parts = ir::framework_parts();
  std::vector<const PlanPart*> before;
  std::ranges::copy_if(parts, std::back_inserter(before),
                       [&plan](const PlanPart* part) { return part->has(plan); });
  choose_runtime(reader, plan);
  const Runtime* const runtime = ir::find_runtime(plan.runtime);
  if (runtime == nullptr) {
    return;  // The check of the whole plan reports it.
  }
  for (const PlanPart* const part : parts) {
    if (is_asked(reader, *part)) {
      part->add(plan);
    } else if (!reads(*runtime, *part)) {
      part->drop(plan);
    }
  }
  runtime->complete(plan);
  for (const PlanPart* const part : parts) {
    const bool added = part->has(plan) && std::ranges::find(before, part) == before.end();
    if (added && part->precision != nullptr && !reader.has("precision")) {
      plan.precision = part->precision(plan.precision);
    }
    const auto precision = reader.asked("precision", ir::precision_words());
    if (added && part->follow_precision != nullptr && precision) {
      part->follow_precision(plan, *precision);
    }
    read_part(reader, plan, *part);
  }
}

bool decides_optimizer(const OptionReader& reader, const ParallelPlan& plan) {
  if (reader.has("runtime") || reader.has("model-code") ||
      std::ranges::any_of(readable_files(), [&reader](const ReadableFile& file) {
        return reader.has(file.format.option);
      })) {
    return true;
  }
  return std::ranges::any_of(ir::framework_parts(), [&](const PlanPart* part) {
    return part->runtime == plan.runtime &&
           std::ranges::any_of(option_names(*part), [&](std::string_view option) {
             return is_keyed(*part, option) && reader.has(option);
           });
  });
}

}  // namespace headroom::cli
