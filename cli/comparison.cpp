#include "cli/comparison.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cli/judged_question.h"
#include "cli/option_text.h"
#include "cli/own_options.h"
#include "cli/plan_file.h"
#include "cli/question.h"
#include "cli/report/host_text.h"
#include "cli/report/time_report.h"
#include "cli/scalars.h"
#include "cli/synonyms.h"
#include "model_ir/base/counted.h"
#include "model_ir/base/error.h"
#include "model_ir/base/file.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/plan_parts.h"

namespace headroom::cli {
namespace {

/// One option with the values that are tried.
struct Variation {
  OptionSpec option;  ///< The typed option, perhaps by another name than `meant`.
  std::string meant;  ///< The option of the verb.
  std::vector<std::string> values;
};

/// A plan that is asked for, before it is judged.
struct AskedPlan {
  std::string name;
  Arguments arguments;
};

/// Drops values that are other spellings of values before them.
void keep_different(Variation& variation) {
  std::vector<std::string> kept;
  std::set<std::string> seen;
  for (const std::string& value : variation.values) {
    if (seen.insert(own_value(variation.meant, value)).second) {
      kept.push_back(value);
    }
  }
  variation.values = std::move(kept);
}

/// "zero=1,2,3". Values that hold commas themselves are separated by semicolons.
Result<Variation> read_variation(const VerbSpec& verb, std::string_view text) {
  const std::size_t equals = text.find('=');
  std::string name(text.substr(0, equals));
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  std::vector<OptionSpec> options = verb.options;
  const std::vector<OptionSpec> others = synonym_specs(verb);
  options.insert(options.end(), others.begin(), others.end());
  std::erase_if(options,
                [](const OptionSpec& option) { return option.repeats || option.name == "plan"; });
  const auto option = std::ranges::find(options, name, &OptionSpec::name);
  if (option == options.end()) {
    std::vector<std::string> known;
    for (const OptionSpec& one : options) {
      known.emplace_back(one.name);
    }
    const std::optional<std::string> closest = closest_word(name, known);
    return Error::invalid_argument(
        "vary", std::string(text) + ": " + name + " is not an option of headroom fit", {},
        closest ? "use --vary " + *closest + std::string(text.substr(std::min(equals, text.size())))
                : "headroom fit --help all lists the options");
  }
  Variation found{.option = *option, .meant = std::string(meant_option(verb, name)), .values = {}};
  const std::string_view values =
      equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
  found.values = split_at(values, values.find(';') == std::string_view::npos ? ',' : ';');
  if (std::ranges::find(found.values, "") != found.values.end()) {
    return Error::invalid_argument("vary", std::string(text), "OPTION=VALUE,VALUE",
                                   "for example --vary checkpointing=none,full");
  }
  keep_different(found);
  return found;
}

/// Whether "none" is a value of the option; otherwise it stands for leaving the option out.
bool takes_none(std::string_view option) {
  const auto has = [option](const ir::PlanPart& part) {
    return std::ranges::any_of(part.fields, [option](const ir::OptionField& field) {
      return field.option == option && !field.in_spec &&
             (field.kind == ir::OptionKind::kWord || field.kind == ir::OptionKind::kText);
    });
  };
  const std::vector<std::string> optimizers = ir::texts_of(ir::optimizer_words());
  const bool is_optimizer =
      option == "optimizer" && std::ranges::find(optimizers, "none") != optimizers.end();
  return is_optimizer || has(ir::plan_options()) ||
         std::ranges::any_of(ir::framework_parts(),
                             [&has](const ir::PlanPart* part) { return has(*part); });
}

Status apply_value(const Variation& variation, const std::string& value, Arguments& arguments) {
  const OptionSpec& option = variation.option;
  arguments.remove(variation.meant);
  remove_own_option(option.name, arguments);
  if (option.value.empty()) {
    if (value != "yes" && value != "no") {
      return Error::invalid_argument("vary", std::string(option.name) + "=" + value,
                                     "yes or no: --" + std::string(option.name) + " is a switch");
    }
    if (value == "yes") {
      arguments.set(option.name, "");
    }
  } else if (value != "none" || takes_none(variation.meant)) {
    arguments.set(option.name, value);
  }
  return ok();
}

Result<std::vector<AskedPlan>> varied(const AskedPlan& plan,
                                      const std::vector<Variation>& variations) {
  std::vector<AskedPlan> all = {plan};
  for (const Variation& variation : variations) {
    std::vector<AskedPlan> more;
    for (const AskedPlan& before : all) {
      for (const std::string& value : variation.values) {
        AskedPlan one = before;
        one.name += " " + std::string(variation.option.name) + "=" + printable(value);
        if (Status known = apply_value(variation, value, one.arguments); !known) {
          return std::move(known).error();
        }
        more.push_back(std::move(one));
        if (more.size() > kMostCompared) {
          return Error::invalid_argument(
              "vary", "more than " + std::to_string(kMostCompared) + " combinations",
              "at most so many", "vary fewer options at once");
        }
      }
    }
    all = std::move(more);
  }
  return all;
}

/// A copy of the options without positionals.
Arguments without_positionals(const Arguments& arguments) {
  Arguments rest = arguments;
  while (!rest.positionals().empty()) {
    rest = rest.without_first_positional();
  }
  return rest;
}

/// What a positional asks for: a plan file, or a model with the options that were typed.
Result<AskedPlan> asked_by(const VerbSpec& verb, const Arguments& typed, const std::string& text) {
  AskedPlan asked{.name = printable(text), .arguments = without_positionals(typed)};
  const bool file = text.ends_with(".json") && [&text] {
    const Result<std::string> content = read_file(text);
    return content && ir::is_plan_file(*content);
  }();
  if (!file) {
    asked.arguments.add_positional(text);
    return asked;
  }
  if (typed.has("plan")) {
    return Error::invalid_argument("plan", "and the plan file " + text, "one of them",
                                   "leave out --plan: plan files are named like models");
  }
  asked.arguments.set("plan", text);
  Result<Arguments> with = with_plan_file(verb, std::move(asked.arguments));
  if (!with) {
    return std::move(with).error();
  }
  asked.arguments = std::move(with).value();
  return asked;
}

Result<std::vector<AskedPlan>> asked_plans(const VerbSpec& verb, const Arguments& typed) {
  std::vector<Variation> variations;
  if (const std::optional<std::string> lines = typed.value("vary")) {
    for (const std::string& line : split_at(*lines, '\n')) {
      Result<Variation> one = read_variation(verb, line);
      if (!one) {
        return std::move(one).error();
      }
      variations.push_back(std::move(one).value());
    }
  }
  std::vector<AskedPlan> all;
  for (const std::string& positional : typed.positionals()) {
    const Result<AskedPlan> one = asked_by(verb, typed, positional);
    const Result<std::vector<AskedPlan>> some =
        one ? varied(*one, variations) : Result<std::vector<AskedPlan>>(one.error());
    if (!some) {
      return some.error();
    }
    all.insert(all.end(), some->begin(), some->end());
  }
  if (all.size() < 2 || all.size() > kMostCompared) {
    return Error::invalid_argument(
        "MODEL", counted(all.size(), "plan"),
        "from 2 to " + std::to_string(kMostCompared) + " plans to compare",
        "name several models or plan files, or vary an option: --vary checkpointing=none,full");
  }
  return all;
}

/// Refuses plans of which several would read standard input, which has one configuration.
Status check_standard_input(const std::vector<AskedPlan>& asked) {
  const auto reads = [](const AskedPlan& one) {
    const std::vector<std::string>& given = one.arguments.positionals();
    return std::ranges::find(given, "-") != given.end();
  };
  const auto readers = std::ranges::count_if(asked, reads);
  return readers < 2 ? ok()
                     : Status(Error::invalid_argument(
                           "MODEL", "-, for " + std::to_string(readers) + " of the plans",
                           "one plan at most that reads standard input",
                           "write the configuration into a file and name that file"));
}

void take_estimate(const cost::StepEstimate& estimate, ComparedPlan& plan) {
  plan.verdict = estimate.verdict;
  plan.yes = cost::is_yes(estimate.verdict, estimate.chance);
  plan.chance = estimate.chance;
  plan.margin = estimate.margin;
  plan.capacity = estimate.capacity;
  plan.peak_allocated = estimate.peak_allocated;
  plan.peak_reserved = estimate.peak_reserved;
  plan.by_role = estimate.peak_by_role;
  plan.moment = estimate.peak_moment;
  plan.host = estimate.host;
  plan.host_verdict = estimate.host_verdict;
  if (estimate.time) {
    plan.step = estimate.time->total;
    plan.parts = estimate.time->parts;
    plan.tokens_per_second = estimate.time->tokens / estimate.time->total.value();
  }
}

/// Judges the question that `arguments` ask, as `fit` does.
Status judge_arguments(const Arguments& arguments, ComparedPlan& plan) {
  Result<Question> question = read_question(arguments);
  if (!question) {
    return std::move(question).error();
  }
  plan.notes = question->model.notes;
  plan.notes.insert(plan.notes.end(), question->request.notes.begin(),
                    question->request.notes.end());
  const Result<JudgedQuestion> judged =
      judge_question(arguments, std::move(question).value(), UsualRouting::kPublished);
  if (!judged) {
    return judged.error();
  }
  if (judged->time.machine) {
    const std::vector<std::string> more =
        machine_notes(*judged->time.machine, judged->question.request.plan.world);
    plan.notes.insert(plan.notes.end(), more.begin(), more.end());
  }
  const Question& asked = judged->question;
  const std::vector<std::string> assumed = host_notes(judged->estimate.host, asked.device);
  plan.notes.insert(plan.notes.end(), assumed.begin(), assumed.end());
  plan.host_assumed = host_assumption(asked.device);
  plan.model = asked.model.label;
  plan.device = asked.device.name;
  plan.file = plan_file_of(arguments, asked.model, &asked.device, asked.request.plan);
  take_estimate(judged->estimate, plan);
  return ok();
}

Status judge_asked(const VerbSpec& verb, const AskedPlan& asked, ComparedPlan& plan) {
  const Result<Arguments> plain = with_synonyms(verb, asked.arguments);
  const Result<Arguments> arguments = plain ? with_own_options(*plain) : plain;
  if (!arguments) {
    return plain ? plain->as_typed(arguments.error()) : arguments.error();
  }
  Status judged = judge_arguments(*arguments, plan);
  return judged ? ok() : Status(arguments->as_typed(std::move(judged).error()));
}

/// Adds a difference unless all plans that exist have the same value.
void add_difference(std::vector<PlanDifference>& all, std::string option,
                    std::vector<std::string> values, const std::vector<ComparedPlan>& plans) {
  std::set<std::string> distinct;
  for (std::size_t at = 0; at < plans.size(); ++at) {
    if (!plans[at].refusal) {
      distinct.insert(values[at]);
    }
  }
  if (distinct.size() > 1) {
    all.push_back({.option = std::move(option), .values = std::move(values)});
  }
}

/// "micro-batch", "megatron tp", "zero reduce_bucket_elements".
std::string row_name(const ir::PlanPart& part, const ir::OptionField& field) {
  if (field.option.empty()) {
    return std::string(part.name) + " " + std::string(field.name);
  }
  return std::string(field.option) + (field.in_spec ? " " + plain_key(field.key) : "");
}

/// The rows of one table. Where some plans lack the part, only what is not usual is told.
void add_rows(std::vector<PlanDifference>& all, const ir::PlanPart& part,
              const std::vector<ComparedPlan>& plans) {
  const bool in_all = std::ranges::all_of(plans, [&part](const ComparedPlan& plan) {
    return plan.refusal || part.has(plan.file.plan);
  });
  for (const ir::OptionField& field : part.fields) {
    std::vector<std::string> values;
    bool told = in_all || field.always_shown || (!field.in_spec && field.option == part.option);
    for (const ComparedPlan& plan : plans) {
      const bool has = !plan.refusal && part.has(plan.file.plan);
      values.push_back(has ? value_text(field, field.get(plan.file.plan)) : "-");
      told = told || (has && !field.same(plan.file.plan, part.usual()));
    }
    if (told) {
      add_difference(all, row_name(part, field), std::move(values), plans);
    }
  }
}

std::string assumption_text(const ComparedPlan& plan, std::string_view option) {
  const auto found = std::ranges::find(plan.file.assumptions, option, &ir::Assumption::option);
  return found == plan.file.assumptions.end() ? "-" : found->value;
}

}  // namespace

OptionSpec vary_option() {
  return {.name = "vary",
          .value = "OPTION=V,V",
          .fallback = "",
          .help =
              "compare these values of an option; with several --vary, every combination. If a "
              "value contains commas, separate values by semicolons: --vary 'lora=r=8,dora;none'. "
              "The value none leaves the option out, unless none is one of its own values, as in "
              "checkpointing=none",
          .repeats = true};
}

Result<std::vector<ComparedPlan>> compare_plans(const VerbSpec& verb, const Arguments& arguments) {
  const Result<std::vector<AskedPlan>> asked = asked_plans(verb, arguments);
  if (!asked) {
    return asked.error();
  }
  if (Status readable = check_standard_input(*asked); !readable) {
    return std::move(readable).error();
  }
  std::vector<ComparedPlan> plans;
  for (const AskedPlan& one : *asked) {
    ComparedPlan plan;
    plan.name = one.name;
    if (Status judged = judge_asked(verb, one, plan); !judged) {
      plan.refusal = std::move(judged).error();
    }
    plans.push_back(std::move(plan));
  }
  const bool none =
      std::ranges::all_of(plans, [](const ComparedPlan& plan) { return plan.refusal.has_value(); });
  return none ? Result<std::vector<ComparedPlan>>(*plans.front().refusal) : plans;
}

std::vector<std::string> numbered_notes(const std::vector<ComparedPlan>& plans) {
  std::vector<std::string> texts;
  std::vector<std::string> numbers;
  for (std::size_t at = 0; at < plans.size(); ++at) {
    for (const std::string& note : plans[at].notes) {
      const auto found = std::ranges::find(texts, note) - texts.begin();
      if (found == std::ssize(texts)) {
        texts.push_back(note);
        numbers.emplace_back();
      }
      numbers[static_cast<std::size_t>(found)] += "(" + std::to_string(at + 1) + ") ";
    }
  }
  for (std::size_t at = 0; at < texts.size(); ++at) {
    texts[at].insert(0, numbers[at]);
  }
  return texts;
}

std::vector<PlanDifference> differences_of(const std::vector<ComparedPlan>& plans) {
  std::vector<PlanDifference> all;
  const auto add = [&](const std::string& option, const auto& value_of) {
    std::vector<std::string> values;
    for (const ComparedPlan& plan : plans) {
      values.push_back(plan.refusal ? "-" : value_of(plan));
    }
    add_difference(all, option, std::move(values), plans);
  };
  add("model", [](const ComparedPlan& plan) { return plan.model; });
  add("gpu", [](const ComparedPlan& plan) { return plan.device; });
  for (const OptionSpec& option : assumption_options()) {
    add(std::string(option.name),
        [&option](const ComparedPlan& plan) { return assumption_text(plan, option.name); });
  }
  add_rows(all, ir::plan_options(), plans);
  add("optimizer", [](const ComparedPlan& plan) {
    return std::string(ir::word_of(ir::optimizer_words(), plan.file.plan.optimizer));
  });
  for (const ir::PlanPart* const part : ir::plan_parts()) {
    add_rows(all, *part, plans);
  }
  return all;
}

}  // namespace headroom::cli
