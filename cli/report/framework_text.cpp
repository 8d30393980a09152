#include "cli/report/framework_text.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/error_json.h"
#include "cli/report/fit_answer.h"
#include "cli/report/why_text.h"
#include "cli/scalars.h"
#include "costmodel/expert_load.h"
#include "model_ir/base/counted.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/plan/plan_words.h"
#include "planner/space/all_axes.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

/// The step of a row as `fit` says it.
Seconds step_of(const plan::FrameworkBest& row) {
  return row.estimate && row.estimate->time ? row.estimate->time->total : row.best->time.total();
}

/// The reason for which a framework has no plan in the table, or for which its plan may not be its
/// best.
std::string state_of(const PlanAnswer& answer, const plan::FrameworkBest& row) {
  switch (row.status) {
    case plan::PlanStatus::kOptimal:
      return "";
    case plan::PlanStatus::kFeasible:
      if (row.cut) {
        return "; not proven to be its best";
      }
      return "; not proven to be its best, which is no better than " +
             bound_text(answer.search.objective, row.bound);
    case plan::PlanStatus::kInfeasible:
      return row.framework->runtime() + (row.late ? ": no plan is in time" : ": no plan fits");
    case plan::PlanStatus::kUnknown:
      if (row.cut) {
        return row.framework->runtime() + ": the search ended before it found a plan that fits";
      }
      return row.framework->runtime() + ": no plan that fits was found among the first" +
             (row.bound == 0
                  ? ""
                  : "; none is better than " + bound_text(answer.search.objective, row.bound));
  }
  return "";
}

/// One reason, and whom it concerns.
struct Reason {
  std::string subject;  ///< "transformers, fsdp", or "fsdp without --optimizer adamw-8bit".
  std::string text;     ///< As it is said of one framework: "it has no --lora".
  int count = 1;        ///< The number of frameworks of which it is said.
};

/// The reason as it is said of all its frameworks: "they have no --lora".
std::string text_of(const Reason& reason) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kPlurals = {
      {{"it has ", "they have "},
       {"it needs ", "they need "},
       {"it keeps ", "they keep "},
       {"name it, ", "name them, "}}};
  std::string text = reason.text;
  if (reason.count > 1) {
    for (const auto& [one, several] : kPlurals) {
      if (const std::size_t at = text.find(one); at != std::string::npos) {
        text.replace(at, one.size(), several);
      }
    }
  }
  return text;
}

/// "--micro-batch is 4, expected one of 1, 2", or a statement: "--lora is not supported with ...".
std::string reason_for(const Error& error) {
  const std::string subject = error.key.empty() ? "" : shown_key(error.key) + " ";
  if (error.wanted.empty()) {
    return subject + error.got;
  }
  return subject + (error.got.empty() ? "" : "is " + error.got + ", ") + "expected " + error.wanted;
}

std::vector<Reason> reasons_of(const PlanAnswer& answer) {
  std::vector<Reason> reasons;
  const auto add = [&reasons](const std::string& subject, const std::string& text) {
    const auto same = std::ranges::find(reasons, text, &Reason::text);
    if (same == reasons.end()) {
      reasons.push_back({.subject = subject, .text = text});
    } else {
      same->subject += ", " + subject;
      ++same->count;
    }
  };
  for (const plan::LeftOut& one : answer.result.left_out) {
    std::string subject = one.framework->runtime();
    for (const plan::Alternative& value : one.values) {
      subject += (&value == &one.values.front()
                      ? " with --" + std::string(plan::option_of(value.axis)) + " "
                      : ",") +
                 plan::value_text(value.axis, value.value);
    }
    add(subject, one.reason);
  }
  for (const plan::Refused& one : answer.result.refused) {
    add(counted(static_cast<std::int64_t>(one.plans), "plan") + " of " + one.framework->runtime(),
        reason_for(one.error));
  }
  return reasons;
}

/// An axis that was held, and its value.
struct Held {
  std::string option;
  std::string value;     ///< The value in the plan that is shown first.
  std::string others{};  ///< The same option in the best plans of other frameworks, for people.
};

/// Whether other values of `axis` could change the plan.
bool matters(plan::Axis axis, const PlanAnswer& answer) {
  const ir::ParallelPlan& best = answer.result.best->plan;
  if (axis == plan::Axis::kFrozenWeights) {
    return best.lora.has_value();
  }
  switch (axis->needs) {
    case plan::AxisNeeds::kNothing:
      return true;
    case plan::AxisNeeds::kSeveralGpus:
      return best.world > 1;
    case plan::AxisNeeds::kExperts:
      return answer.search.model.spec.moe.has_value();
  }
  return true;
}

/// " (transformers: bf16-autocast)": other values that the best plans of frameworks hold.
std::string other_values(const PlanAnswer& answer, plan::Axis axis) {
  const auto text_in = [axis](const ir::ParallelPlan& plan) {
    return plan::value_text(axis, plan::value_of(plan, axis));
  };
  std::vector<std::string> others;
  for (const plan::FrameworkBest& row : answer.frameworks) {
    if (row.best && text_in(row.best->plan) != text_in(answer.result.best->plan)) {
      others.push_back(std::string(row.framework->runtime()) + ": " + text_in(row.best->plan));
    }
  }
  return others.empty() ? "" : " (" + ir::join(others) + ")";
}

std::vector<Held> held_of(const PlanAnswer& answer) {
  std::vector<Held> held;
  if (!answer.result.best) {
    return held;
  }
  const ir::ParallelPlan& best = answer.result.best->plan;
  for (const plan::Axis axis : plan::all_axes()) {
    const bool has = plan::find_common_axis(axis) != nullptr ||
                     std::ranges::any_of(answer.result.frameworks, [axis](const auto* framework) {
                       return plan::find_axis(*framework, axis) != nullptr;
                     });
    // PyTorch's losses but the usual one are searched only if the axis is named.
    const bool torch_loss =
        axis == plan::Axis::kLoss && plan::value_of(best, axis) >= plan::kFirstTorchLoss;
    if ((plan::is_held(axis) || torch_loss) && has && matters(axis, answer) &&
        answer.search.constraints.of(axis).empty()) {
      const bool common = plan::find_common_axis(axis) != nullptr;
      held.push_back({.option = std::string(plan::option_of(axis)),
                      .value = axis == plan::Axis::kOptimizer
                                   ? std::string(ir::word_of(ir::optimizer_words(), best.optimizer))
                               : common || torch_loss
                                   ? plan::value_text(axis, plan::value_of(best, axis))
                                   : std::string(axis->usual),
                      .others = common ? other_values(answer, axis) : std::string()});
    }
  }
  return held;
}

}  // namespace

std::string framework_lines(const PlanAnswer& answer, const Terminal& terminal) {
  if (answer.frameworks.size() < 2) {
    return "";
  }
  const bool by_memory = answer.search.objective == plan::Objective::kMemory;
  const auto memory_of = [by_memory](const plan::FrameworkBest& row) {
    return by_memory ? row.estimate->peak_allocated : row.estimate->peak_reserved;
  };
  double longest = 0;
  double largest = 0;
  for (const plan::FrameworkBest& row : answer.frameworks) {
    if (row.best && row.estimate) {
      longest = std::max(longest, step_of(row).value());
      largest = std::max(largest, static_cast<double>(memory_of(row).value()));
    }
  }
  const TableUnit times = unit_of_seconds(longest);
  const TableUnit sizes = unit_of_bytes(largest);
  const auto gpus_of = [](const plan::FrameworkBest& row) {
    return row.best ? row.best->plan.world : 0;
  };
  const auto tokens_of = [](const plan::FrameworkBest& row) {
    return row.best ? row.best->plan.workload.sequence : 0;
  };
  const auto differs = [&](const auto& figure) {
    const auto first = std::ranges::find_if(answer.frameworks, figure);
    return std::ranges::any_of(answer.frameworks, [&](const plan::FrameworkBest& row) {
      return row.best && figure(row) != figure(*first);
    });
  };
  const bool counts_differ = differs(gpus_of);
  const bool lengths_differ = differs(tokens_of);
  const std::string where =
      answer.gpus.size() > 1 ? " on " + answer.gpus[answer.type].name : std::string();
  const bool by_cost = answer.search.objective == plan::Objective::kCost;
  std::string text =
      "\n" +
      wrap("the best plan of each framework" + where + (by_cost ? ", the cheapest first" : "") +
               (by_memory ? ": step, allocated at the peak, chance to fit"
                          : ": step, reserved, chance to fit"),
           terminal.width, 0) +
      "\n";
  constexpr std::size_t kIndent = 34;
  for (const plan::FrameworkBest& row : answer.frameworks) {
    if (!row.best || !row.estimate) {
      text += "  " + wrap(state_of(answer, row), terminal.width - 4, 4) + "\n";
      continue;
    }
    text += "  " + pad_left(table_figure(step_of(row), times), 9) + "  " +
            pad_left(table_figure(memory_of(row), sizes), 10) + "  " +
            pad_left(row.estimate->chance ? percent_text(*row.estimate->chance) : "-", 7) + "  " +
            wrap((counts_differ ? counted(gpus_of(row), "GPU") + ": " : "") +
                     (lengths_differ ? counted(tokens_of(row), "token") + ": " : "") +
                     plan_words(row.best->plan) + state_of(answer, row),
                 terminal.width - 2 - kIndent, kIndent) +
            "\n";
  }
  return text;
}

JsonValue framework_json(const PlanAnswer& answer) {
  JsonValue::Array array;
  for (const plan::FrameworkBest& row : answer.frameworks) {
    const bool found = row.best && row.estimate;
    JsonFields fields;
    fields.add("framework", row.framework->runtime());
    fields.add("status", name_of(row.status));
    fields.add("bound", row.status == plan::PlanStatus::kInfeasible || row.cut
                            ? JsonValue{}
                            : JsonValue{row.bound});
    fields.add("summary", found ? JsonValue{plan_words(row.best->plan)} : JsonValue{});
    fields.add("step_seconds", found ? JsonValue{step_of(row).value()} : JsonValue{});
    fields.add("peak_reserved_bytes",
               found ? JsonValue{row.estimate->peak_reserved.value()} : JsonValue{});
    fields.add("fits_probability",
               found && row.estimate->chance ? JsonValue{*row.estimate->chance} : JsonValue{});
    fields.add("plan", found ? ir::plan_to_json(row.best->plan) : JsonValue{});
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

std::string left_out_lines(const PlanAnswer& answer, const Terminal& terminal) {
  std::string text;
  for (const Reason& reason : reasons_of(answer)) {
    text +=
        wrap("left out: " + reason.subject + ": " + text_of(reason), terminal.width - 2, 2) + "\n";
  }
  return text.empty() ? "" : "\n" + text;
}

JsonValue left_out_json(const PlanAnswer& answer) {
  JsonValue::Array array;
  for (const Reason& reason : reasons_of(answer)) {
    JsonFields fields;
    fields.add("what", reason.subject);
    fields.add("reason", text_of(reason));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

std::string offer_lines(const PlanAnswer& answer, const Terminal& terminal) {
  if (answer.offers.empty()) {
    return "";
  }
  std::string text = "\nfaster on this plan, but searched only if you name the option:\n";
  for (const plan::Offer& offer : answer.offers) {
    text += "  " +
            wrap("--" + std::string(plan::option_of(offer.alternative.axis)) + " " +
                     plan::value_text(offer.alternative.axis, offer.alternative.value) + ": step " +
                     duration_text(offer.estimate.time->total.value()) + ", " +
                     percent_text(offer.gain) + " less" +
                     (offer.changes_training ? ", changes the numerics of training" : ""),
                 terminal.width - 4, 4) +
            "\n";
  }
  return text;
}

JsonValue offers_json(const PlanAnswer& answer) {
  JsonValue::Array array;
  for (const plan::Offer& offer : answer.offers) {
    JsonFields fields;
    fields.add("option", plan::option_of(offer.alternative.axis));
    fields.add("value", plan::value_text(offer.alternative.axis, offer.alternative.value));
    fields.add("step_seconds", offer.estimate.time->total.value());
    fields.add("gain", offer.gain);
    fields.add("changes_training", offer.changes_training);
    fields.add("plan", ir::plan_to_json(offer.plan));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

double load_of_best(const PlanAnswer& answer) {
  return answer.result.best ? cost::busy_load_of(answer.search.model.spec, answer.result.best->plan,
                                                 answer.search.imbalance)
                            : 1;
}

std::string held_lines(const PlanAnswer& answer, const Terminal& terminal) {
  std::string text;
  for (const Held& one : held_of(answer)) {
    text += (text.empty() ? "held unless you name them: --" : ", --") + one.option + " " +
            one.value + one.others;
  }
  if (text.empty()) {
    return "";
  }
  if (answer.search.model.spec.moe) {
    const double load = load_of_best(answer);
    text += load == 1
                ? std::string("; every expert gets the same number of tokens")
                : "; the peak is that of a rank whose experts get " + decimal_text(load, 2) +
                      " times an even share of the tokens, which 19 of 20 steps do not "
                      "exceed (--routing-imbalance " +
                      real_text(answer.search.imbalance) + "); the time is that of even shares";
  }
  return wrap(text, terminal.width - 2, 2) + "\n";
}

JsonValue held_json(const PlanAnswer& answer) {
  JsonValue::Array array;
  for (const Held& one : held_of(answer)) {
    JsonFields fields;
    fields.add("option", one.option);
    fields.add("value", one.value);
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

}  // namespace headroom::cli
