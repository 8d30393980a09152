#include "cli/report/choices_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "cli/report/why_text.h"
#include "cli/scalars.h"
#include "costmodel/confidence.h"
#include "model_ir/base/counted.h"
#include "runtimes/plan_json.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

JsonValue optional_json(const std::optional<double>& value) {
  return value ? JsonValue{*value} : JsonValue{};
}

/// "1T", "300B", "1.5M": a number of tokens.
std::string tokens_text(double tokens) {
  constexpr std::array<std::pair<double, const char*>, 3> kScales = {
      {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}}};
  for (const auto& [scale, letter] : kScales) {
    if (tokens >= scale) {
      return real_text(tokens / scale) + letter;
    }
  }
  return real_text(tokens);
}

/// A replayed step, and what the run takes with it.
struct Use {
  const cost::StepTime& step;
  cost::RunFigures run;
};

std::optional<Use> use_of(const PlanAnswer& answer, std::size_t type,
                          const std::optional<cost::StepEstimate>& estimate) {
  if (!estimate || !estimate->time) {
    return std::nullopt;
  }
  return Use{.step = *estimate->time, .run = run_figures(*estimate->time, answer.run.costs[type])};
}

/// The GPUs with which a run of `days` on `gpus` takes no longer than `within`, if its speed grows
/// with their number.
std::int64_t gpus_in_time(std::int64_t gpus, double days, Seconds within) {
  constexpr double kSecondsPerDay = 86400;
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(gpus) * days * kSecondsPerDay / within.value()));
}

/// The days of a run whose tokens are known.
std::optional<double> days_of(const PlanAnswer& answer, const Use& use) {
  return answer.run.tokens ? use.run.days : std::nullopt;
}

void add_figures(const PlanAnswer& answer, const std::optional<Use>& use, JsonFields& fields) {
  const auto add = [&fields](const char* key, const std::optional<double>& value) {
    fields.add(key, optional_json(value));
  };
  add("tokens_per_second_per_gpu",
      use ? std::optional(use->step.tokens_per_second_per_gpu()) : std::nullopt);
  add("mfu", use ? use->step.mfu() : std::nullopt);
  add("days", use ? days_of(answer, *use) : std::nullopt);
  add("dollars", use ? use->run.dollars : std::nullopt);
  add("megawatt_hours", use ? use->run.megawatt_hours : std::nullopt);
}

/// The widths of the columns after the name of the GPU.
constexpr std::size_t kGpuColumns = 6;
constexpr std::size_t kStepColumns = 10;
constexpr std::size_t kRateColumns = 10;
constexpr std::size_t kMfuColumns = 8;
constexpr std::size_t kRunColumns = 10;

bool shows_dollars(const PlanAnswer& answer) {
  return std::ranges::any_of(answer.run.costs, [](const cost::RunCosts& costs) {
    return costs.dollars_per_gpu_hour.has_value();
  });
}

std::string cell_of(const std::optional<double>& value, std::size_t width) {
  return pad_left(value ? three_digits(*value) : "-", width);
}

std::string table_head(const PlanAnswer& answer, std::size_t name_columns) {
  std::string text = "  " + pad_right("GPU", name_columns) + pad_left("GPUs", kGpuColumns) +
                     pad_left("step", kStepColumns) + pad_left("tok/s/GPU", kRateColumns) +
                     pad_left("MFU", kMfuColumns);
  text += answer.run.tokens ? pad_left("days", kRunColumns) : "";
  text += shows_dollars(answer) ? pad_left("dollars", kRunColumns) : "";
  return text + pad_left("MWh", kRunColumns) + "\n";
}

/// The reason why the space has no plan on so many GPUs.
std::string no_plan_text(const PlanAnswer& answer, std::int64_t gpus) {
  const std::int64_t batch = answer.search.global_batch;
  if (batch % gpus == 0) {
    return "no plan has so many GPUs";
  }
  constexpr std::int64_t kMostTimes = 4;  // A choice: no step of quite another size is proposed.
  std::int64_t common = gpus;             // Ranks that share a step evenly on every number of GPUs.
  for (const PlanChoice& choice : answer.choices) {
    common = common > kMostTimes * batch ? common : std::lcm(common, choice.gpus);
  }
  const std::int64_t unit = common <= kMostTimes * batch ? common : gpus;
  return "no plan: " + std::to_string(batch) +
         " sequences of a step cannot be divided evenly; try --global-batch " +
         std::to_string(ceil_div(batch, unit) * unit);
}

std::string row_text(const PlanAnswer& answer, const PlanChoice& choice, const TableUnit& unit,
                     std::size_t name_columns) {
  const bool best = choice.best && answer.result.best && choice.type == answer.type &&
                    choice.gpus == answer.result.best->plan.world;
  std::string text = std::string(best ? "* " : "  ") +
                     pad_right(answer.gpus[choice.type].name, name_columns) +
                     pad_left(std::to_string(choice.gpus), kGpuColumns);
  const std::optional<Use> use = use_of(answer, choice.type, choice.estimate);
  if (!choice.best || !use) {
    return text + "  " +
           (!choice.in_space                                 ? no_plan_text(answer, choice.gpus)
            : choice.status == plan::PlanStatus::kInfeasible ? std::string("no plan fits")
                                                             : std::string("no plan found")) +
           "\n";
  }
  text += pad_left(table_figure(use->step.total, unit), kStepColumns) +
          cell_of(use->step.tokens_per_second_per_gpu(), kRateColumns);
  const std::optional<double> mfu = use->step.mfu();
  text += pad_left(mfu ? percent_text(*mfu) : "-", kMfuColumns);
  text += answer.run.tokens ? cell_of(days_of(answer, *use), kRunColumns) : "";
  text += shows_dollars(answer) ? cell_of(use->run.dollars, kRunColumns) : "";
  return text + cell_of(use->run.megawatt_hours, kRunColumns) + "\n";
}

/// How long the run takes with the steps of the interval, and whether that may be too long: "by the
/// interval of the step, 8.1 to 19 days, so that it may take longer than --within 9d".
std::string days_range(const PlanAnswer& answer, double days) {
  const cost::StepEstimate& estimate = *answer.result.estimate;
  const cost::Confidence confidence =
      cost::confidence_of(estimate, answer.result.best->plan, answer.search.residuals);
  if (!confidence.step_time || confidence.basis.runs == 0) {
    return "";
  }
  constexpr double kSecondsPerDay = 86400;
  const double per_step = days / estimate.time->total.value();
  const double high = per_step * confidence.step_time->high.value();
  const bool may_be_late = answer.run.within && high * kSecondsPerDay > answer.run.within->value();
  return "by the interval of the step, " +
         three_digits(per_step * confidence.step_time->low.value()) + " to " + three_digits(high) +
         " days" +
         (may_be_late ? ", so that it may take longer than --within " + answer.run.within_text
                      : "");
}

/// The note for a reader who compares one GPU of the best type with several; empty if none does.
/// Source: docs/time-model.md, together_rate.
std::string lone_gpu_note(const PlanAnswer& answer) {
  const double together = answer.search.machine.performance.gemm.together;
  const auto count = [&](auto&& counts) {
    return std::ranges::any_of(answer.choices, [&](const PlanChoice& choice) {
      return choice.type == answer.type && choice.best && counts(choice.gpus);
    });
  };
  if (together >= 1 || !count([](std::int64_t gpus) { return gpus == 1; }) ||
      !count([](std::int64_t gpus) { return gpus > 1; })) {
    return "";
  }
  return answer.gpus[answer.type].name +
         ": in the runs that were measured, matrix products of one "
         "GPU alone were " +
         percent_text(1 / together - 1) +
         " faster than those of several GPUs in a node. The figures of this table follow those "
         "runs, though the reason is not known: compare one GPU with several with care";
}

/// The notes that qualify the figures of the table.
std::string table_notes(const PlanAnswer& answer, const Terminal& terminal) {
  std::string text;
  const auto add = [&](const std::string& note) {
    text += wrap(note, terminal.width - 2, 2) + "\n";
  };
  if (answer.run.rated_power) {
    add("MWh: GPUs at the power of their datasheets, which is the most that they draw; the rest of "
        "the node is left out (--power WATTS counts it)");
  }
  std::string unpriced;
  for (std::size_t i = 0; i < answer.gpus.size(); ++i) {
    if (!answer.run.costs[i].dollars_per_gpu_hour) {
      unpriced += (unpriced.empty() ? "" : ", ") + answer.gpus[i].name;
    }
  }
  for (const std::string& gpu : answer.estimated) {
    add(gpu + ": times are estimates from its datasheet, since nothing was measured on such GPUs");
  }
  if (const std::string note = lone_gpu_note(answer); !note.empty()) {
    add(note);
  }
  if (shows_dollars(answer) && !unpriced.empty()) {
    add("--price has no number for " + unpriced +
        (answer.search.objective == plan::Objective::kCost ? ", which cannot be the cheapest"
                                                           : ""));
  }
  return text;
}

}  // namespace

std::string use_lines(const PlanAnswer& answer, const Terminal& terminal) {
  const std::optional<Use> use = use_of(answer, answer.type, answer.result.estimate);
  if (!use) {
    return "";
  }
  const std::optional<double> mfu = use->step.mfu();
  std::string text = "each GPU: " + three_digits(use->step.tokens_per_second_per_gpu()) +
                     " tokens/s" + (mfu ? ", MFU " + percent_text(*mfu) : "") + "\n";
  if (!answer.run.asked) {
    return text;
  }
  std::string costs = tokens_text(answer.run.basis()) + " tokens: ";
  std::string parts;
  const auto add = [&parts](const std::optional<double>& value, const std::string& unit) {
    if (value) {
      parts += (parts.empty() ? "" : ", ") + three_digits(*value) + " " + unit;
    }
  };
  add(days_of(answer, *use), "days");
  add(use->run.dollars, "dollars");
  add(use->run.megawatt_hours,
      answer.run.rated_power ? "MWh at most (the GPUs at the power of their datasheet)" : "MWh");
  const std::optional<double> days = days_of(answer, *use);
  const std::string range = days ? days_range(answer, *days) : std::string();
  parts += parts.empty() || range.empty() ? "" : "; " + range;
  return parts.empty() ? text : text + wrap(costs + parts, terminal.width - 2, 2) + "\n";
}

void add_use(const PlanAnswer& answer, JsonFields& fields) {
  add_figures(answer, use_of(answer, answer.type, answer.result.estimate), fields);
}

std::string late_lines(const PlanAnswer& answer, const Terminal& terminal) {
  if (!answer.fastest || !answer.run.within) {
    return "";
  }
  const bool proven = answer.result.status == plan::PlanStatus::kInfeasible;
  std::string text =
      (proven ? "no plan trains " : "the search ended before it found a plan that trains ") +
      tokens_text(answer.run.basis()) + " tokens within " + answer.run.within_text;
  const std::optional<Use> use = use_of(answer, answer.type, answer.fastest->estimate);
  if (use && use->run.days && answer.fastest->best) {
    const plan::RatedPlan& best = *answer.fastest->best;
    text += std::string(proven ? "; the fastest takes " : "; the fastest that it found takes ") +
            three_digits(*use->run.days) + " days: " + counted(best.plan.world, "GPU") + ", step " +
            duration_text(use->step.total.value()) + ", " + plan_words(best.plan) +
            ". If the speed grows in proportion to the number of GPUs, about " +
            std::to_string(gpus_in_time(best.plan.world, *use->run.days, *answer.run.within)) +
            " are enough";
  }
  return wrap(text, terminal.width - 2, 2) + "\n";
}

JsonValue fastest_json(const PlanAnswer& answer) {
  if (!answer.fastest || !answer.fastest->best) {
    return JsonValue{};
  }
  const plan::RatedPlan& best = *answer.fastest->best;
  JsonFields fields;
  fields.add("gpus", best.plan.world);
  fields.add("summary", plan_words(best.plan));
  fields.add("step_seconds", step_of(best, answer.fastest->estimate).value());
  add_figures(answer, use_of(answer, answer.type, answer.fastest->estimate), fields);
  fields.add("plan", ir::plan_to_json(best.plan));
  return std::move(fields).finish();
}

std::string choice_lines(const PlanAnswer& answer, const Terminal& terminal) {
  if (answer.choices.size() < 2) {
    return "";
  }
  std::size_t name_columns = 0;
  for (const cost::DeviceSpec& gpu : answer.gpus) {
    name_columns = std::max(name_columns, columns_of(gpu.name));
  }
  double longest = 0;
  for (const PlanChoice& choice : answer.choices) {
    longest = std::max(longest, choice.best ? step_of(*choice.best, choice.estimate).value() : 0);
  }
  const TableUnit unit = unit_of_seconds(longest);
  std::string text = "\nthe best plan on each number of GPUs, for " +
                     tokens_text(answer.run.basis()) + " tokens (* is the best of all):\n" +
                     table_head(answer, name_columns);
  for (const PlanChoice& choice : answer.choices) {
    text += row_text(answer, choice, unit, name_columns);
    if (choice.best) {
      const std::string words =
          plan_words(choice.best->plan) + (choice.late ? "; longer than --within" : "") +
          (choice.status == plan::PlanStatus::kFeasible ? "; not proven to be the best" : "");
      text += "    " + styled(terminal, Style::kFaint, wrap(words, terminal.width - 6, 6)) + "\n";
    }
  }
  return text + table_notes(answer, terminal);
}

JsonValue choices_json(const PlanAnswer& answer) {
  JsonValue::Array array;
  for (const PlanChoice& choice : answer.choices) {
    const bool found = choice.best.has_value();
    const std::optional<Use> use = use_of(answer, choice.type, choice.estimate);
    JsonFields fields;
    fields.add("gpu", answer.gpus[choice.type].name);
    fields.add("gpus", choice.gpus);
    fields.add("status", choice.in_space ? name_of(choice.status) : "not in the space");
    fields.add("in_time", found && !choice.late);
    fields.add("estimated", std::ranges::find(answer.estimated, answer.gpus[choice.type].name) !=
                                answer.estimated.end());
    fields.add("summary", found ? JsonValue{plan_words(choice.best->plan)} : JsonValue{});
    fields.add("step_seconds",
               found ? JsonValue{step_of(*choice.best, choice.estimate).value()} : JsonValue{});
    add_figures(answer, use, fields);
    const bool judged = found && choice.estimate && choice.estimate->chance.has_value();
    fields.add("fits_probability", judged ? JsonValue{*choice.estimate->chance} : JsonValue{});
    fields.add("plan", found ? ir::plan_to_json(choice.best->plan) : JsonValue{});
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

}  // namespace headroom::cli
