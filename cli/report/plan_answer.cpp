#include "cli/report/plan_answer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cli/question.h"
#include "cli/report/choices_text.h"
#include "cli/report/fit_answer.h"
#include "cli/report/framework_text.h"
#include "cli/report/host_text.h"
#include "cli/report/placement_text.h"
#include "cli/report/why_text.h"
#include "cli/scalars.h"
#include "model_ir/base/counted.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/plan/plan_words.h"
#include "planner/space/framework_search.h"
#include "runtimes/plan_json.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

std::string aligned_percent(double part, double whole) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%5.1f %%", whole > 0 ? 100 * part / whole : 0);
  return text.data();
}

JsonFields time_fields(const PlanSearch& search, const plan::RatedPlan& plan) {
  JsonFields fields;
  fields.add("step_seconds", plan.time.total().value());
  fields.add("forward_backward_seconds", plan.time.forward_backward.value());
  fields.add("recomputation_seconds", plan.time.recomputation.value());
  fields.add("bubble_seconds", plan.time.bubble.value());
  fields.add("exchange_seconds", plan.time.exchange.value());
  fields.add("optimizer_seconds", plan.time.optimizer.value());
  fields.add("offload_seconds", plan.time.offload.value());
  fields.add("launch_seconds", plan.time.launches.value());
  fields.add("tokens_per_second", tokens_per_second(search, plan));
  fields.add("gpu_seconds", plan.time.total().value() * static_cast<double>(plan.plan.world));
  return fields;
}

/// The plan's intervals, in the words of `fit`.
cost::Confidence confidence_of(const PlanAnswer& answer) {
  return cost::confidence_of(*answer.result.estimate, answer.result.best->plan,
                             answer.search.residuals);
}

JsonFields estimate_fields(const PlanAnswer& answer) {
  const cost::StepEstimate& estimate = *answer.result.estimate;
  JsonFields fields;
  fields.add("verdict", name_of(estimate.verdict));
  fields.add("fits_probability", estimate.chance ? JsonValue{*estimate.chance} : JsonValue{});
  fields.add("fits_at_once_probability",
             estimate.at_once ? JsonValue{*estimate.at_once} : JsonValue{});
  fields.add("fast_peak_bytes", answer.result.best->peak);
  fields.add("peak_allocated_bytes", estimate.peak_allocated);
  fields.add("peak_reserved_bytes", estimate.peak_reserved);
  fields.add("capacity_bytes", estimate.capacity);
  fields.add("margin_bytes", estimate.margin);
  fields.add("host", host_json(estimate.host, estimate.host_verdict,
                               host_assumption(answer.search.device)));
  const cost::Confidence confidence = confidence_of(answer);
  const bool known = confidence.basis.runs > 0;
  fields.add("reserved_low_bytes",
             known ? JsonValue{confidence.reserved.low.value()} : JsonValue{});
  fields.add("reserved_high_bytes",
             known ? JsonValue{confidence.reserved.high.value()} : JsonValue{});
  fields.add("step_low_seconds",
             confidence.step_time ? JsonValue{confidence.step_time->low.value()} : JsonValue{});
  fields.add("step_high_seconds",
             confidence.step_time ? JsonValue{confidence.step_time->high.value()} : JsonValue{});
  fields.add("moment", estimate.peak_moment);
  fields.add("rank", static_cast<std::int32_t>(estimate.rank));
  fields.add("replayed_step_seconds",
             estimate.time ? JsonValue{estimate.time->total.value()} : JsonValue{});
  add_use(answer, fields);
  fields.add("time", time_fields(answer.search, *answer.result.best));
  return fields;
}

/// The run that is trained; dollars and energy of the document are those of `cost_tokens`.
JsonValue run_json(const TrainingRun& run) {
  JsonFields fields;
  fields.add("tokens", run.tokens ? JsonValue{*run.tokens} : JsonValue{});
  fields.add("within_seconds", run.within ? JsonValue{run.within->value()} : JsonValue{});
  fields.add("cost_tokens", run.basis());
  fields.add("power", run.rated_power ? "datasheet" : "given");
  return std::move(fields).finish();
}

JsonValue front_json(const PlanAnswer& answer) {
  JsonValue::Array array;
  for (const plan::RatedPlan& one : answer.result.front) {
    JsonFields fields;
    fields.add("summary", plan_words(one.plan));
    fields.add("gpus", one.plan.world);
    fields.add("peak_bytes", one.peak);
    fields.add("time", time_fields(answer.search, one));
    fields.add("plan", ir::plan_to_json(one.plan));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonValue replayed_json(const PlanAnswer& answer) {
  JsonValue::Array array;
  for (const plan::ReplayedPlan& one : answer.result.replayed) {
    JsonFields fields;
    fields.add("summary", plan_words(one.plan.plan));
    fields.add("replayed_step_seconds", one.step.value());
    fields.add("step_seconds", one.plan.time.total().value());
    fields.add("peak_bytes", one.plan.peak);
    fields.add("plan", ir::plan_to_json(one.plan.plan));
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

std::string replayed_lines(const PlanAnswer& answer) {
  if (answer.result.replayed.empty()) {
    return "";
  }
  std::string text =
      "\nby replayed time; the second column is the time that the search worked with\n";
  double longest = 0;
  for (const plan::ReplayedPlan& one : answer.result.replayed) {
    longest = std::max({longest, one.step.value(), one.plan.time.total().value()});
  }
  const TableUnit unit = unit_of_seconds(longest);
  for (const plan::ReplayedPlan& one : answer.result.replayed) {
    text += "  " + pad_left(table_figure(one.step, unit), 9) + "  " +
            pad_left(table_figure(one.plan.time.total(), unit), 9) + "  " +
            plan_words(one.plan.plan) + "\n";
  }
  return text;
}

std::string front_lines(const PlanAnswer& answer) {
  const plan::PlanResult& result = answer.result;
  if (result.front.empty()) {
    return "";
  }
  std::string text = "\nnot beaten in time, memory and GPUs at once";
  if (!result.front_whole) {
    text += std::isfinite(result.front_gap)
                ? "; others may be better by up to " + aligned_percent(result.front_gap, 1)
                : "; there may be others";
  }
  text += "\n";
  double longest = 0;
  Bytes largest;
  for (const plan::RatedPlan& one : result.front) {
    longest = std::max(longest, one.time.total().value());
    largest = std::max(largest, one.peak);
  }
  const TableUnit times = unit_of_seconds(longest);
  const TableUnit sizes = unit_of_bytes(static_cast<double>(largest.value()));
  for (const plan::RatedPlan& one : result.front) {
    text += "  " + pad_left(table_figure(one.time.total(), times), 9) + "  " +
            pad_left(table_figure(one.peak, sizes), 10) + "  " + plan_words(one.plan) +
            (answer.search.constraints.of(plan::Axis::kSequence).size() > 1
                 ? ", " + counted(one.plan.workload.sequence, "token")
                 : "") +
            "\n";
  }
  return text;
}

/// The sequence length, if the search chose it.
std::string length_words(const PlanAnswer& answer) {
  const bool chosen = answer.search.constraints.of(plan::Axis::kSequence).size() > 1;
  return chosen && answer.result.best
             ? " of " + counted(answer.result.best->plan.workload.sequence, "token")
             : "";
}

/// "PyTorch empties its cache 2 times to fit, which the step's time leaves out; "; empty if it need
/// not.
std::string emptied_cache_words(const PlanAnswer& answer, const cost::Confidence& confidence) {
  const cost::StepEstimate& estimate = *answer.result.estimate;
  const double saved = confidence.chances.fits - confidence.chances.at_once;
  if (!cost::counts_on_emptying(estimate, confidence)) {
    return "";
  }
  const std::string how =
      estimate.retries > 0
          ? "empties its cache " +
                (estimate.retries == 1 ? std::string("once") : counted(estimate.retries, "time")) +
                " to fit"
          : "may have to empty its cache to fit (chance " + percent_text(saved) + ")";
  return "PyTorch " + how + ", which the step's time leaves out; " + to_text(*confidence.needed) +
         " are enough for it; ";
}

/// "chance to fit 97.2 %, at least 90.0 % asked for; 95 % interval of what is reserved: ...\n";
/// empty if no measured errors apply.
/// Whether what was passed over is worth a word.
bool passes_over(const plan::PlanResult& result) {
  constexpr double kLeast = 0.0005;  // It would be 0.0 %.
  return result.passed_over > kLeast;
}

std::string chance_line(const PlanAnswer& answer, const Terminal& terminal) {
  const std::optional<double> chance = answer.result.estimate->chance;
  if (!chance || !is_measured(answer.search.device)) {
    return "";
  }
  std::string text = "chance to fit " + percent_text(*chance) + ", at least " +
                     percent_text(answer.search.confidence) + " asked for";
  const cost::Confidence confidence = confidence_of(answer);
  if (confidence.basis.runs > 0) {
    text +=
        "; " + emptied_cache_words(answer, confidence) + "95 % interval of the reserved memory" +
        (confidence.reserved.high > answer.result.estimate->capacity ? " on a GPU with more memory"
                                                                     : "") +
        ": " + to_text(confidence.reserved.low) + " to " + to_text(confidence.reserved.high);
  }
  if (const auto& step = confidence.step_time) {
    text += ", of the step: " + duration_text(step->low.value()) + " to " +
            duration_text(step->high.value());
  }
  if (passes_over(answer.result)) {
    text += std::string("; a plan with ") + percent_text(answer.result.passed_over) +
            (answer.search.objective == plan::Objective::kCost ? " fewer GPU seconds"
                                                               : " shorter steps") +
            " was passed over, since it fits only if PyTorch empties its cache";
  }
  return wrap(text, terminal.width - 2, 2) + "\n";
}

std::string head_line(const PlanAnswer& answer) {
  const PlanSearch& search = answer.search;
  return search.model.label + " on " + search.device.name +
         (search.machine.node.empty() ? "" : " (" + search.machine.node + ")") + ", batch of " +
         counted(search.global_batch, "sequence") + length_words(answer) + ": " +
         std::string(name_of(answer.result.status));
}

std::string time_lines(const PlanAnswer& answer) {
  const plan::StepParts& time = answer.result.best->time;
  const double total = time.total().value();
  std::string text;
  const std::array<std::pair<const char*, Seconds>, 7> parts = {
      {{"forward and backward", time.forward_backward},
       {"recomputation", time.recomputation},
       {"pipeline bubble", time.bubble},
       {"data-parallel communication", time.exchange},
       {"optimizer", time.optimizer},
       {"offload: CPU step and copies", time.offload},
       {"waiting for the host", time.launches}}};
  const TableUnit unit = unit_of_seconds(total);
  for (const auto& [name, seconds] : parts) {
    if (seconds.value() > 0) {
      text += "  " + pad_right(name, 32) + pad_left(table_figure(seconds, unit), 10) + "  " +
              aligned_percent(seconds.value(), total) + "\n";
    }
  }
  return text;
}

/// The step as it was replayed, kernel by kernel, which is what `fit` says; then the time that the
/// search worked with, whose parts follow.
std::string step_lines(const PlanAnswer& answer, const Terminal& terminal) {
  const Seconds closed = answer.result.best->time.total();
  const cost::StepEstimate& estimate = *answer.result.estimate;
  const Seconds step = estimate.time ? estimate.time->total : closed;
  const double tokens = tokens_per_second(answer.search, *answer.result.best) * (closed / step);
  std::string line =
      "step " + duration_text(step.value()) + ", " + three_digits(tokens) + " tokens/s";
  if (!estimate.time) {
    return line + "\n";
  }
  const bool guessed = answer.search.machine.performance.estimated;
  line += guessed ? " (full replay, rates estimated from the datasheet)" : " (full replay)";
  return line + "\n" + use_lines(answer, terminal) + "the search estimated " +
         duration_text(closed.value()) + ", made up of:\n";
}

/// The memory of the plan, against the same capacity as in `fit`: the GPU's usable memory, from
/// which the CUDA context and the like are taken before PyTorch reserves any.
std::string memory_lines(const cost::StepEstimate& estimate, const Terminal& terminal) {
  const TableUnit unit = unit_of_bytes(static_cast<double>(estimate.capacity.value()));
  return wrap("peak " + to_text(estimate.peak_allocated) + " allocated in " + estimate.peak_moment,
              terminal.width - 2, 2) +
         "\n" +
         wrap("PyTorch reserves " + to_text(estimate.peak_reserved) + "; at most " +
                  figure_in(static_cast<double>(estimate.capacity.value()), unit) + " of the " +
                  figure_in(static_cast<double>(estimate.device_total.value()), unit) + " " +
                  std::string(unit.name) + " usable are left for it: " +
                  std::string(cost::verdict_words(estimate.verdict, estimate.chance)),
              terminal.width - 2, 2) +
         "\n";
}

/// Of the plans that only the host has no room for, the one that needs least of it.
const plan::RatedPlan* least_host_of(const PlanAnswer& answer) {
  if (answer.infeasible && answer.infeasible->least_host) {
    return &*answer.infeasible->least_host;
  }
  return answer.result.least_host ? &*answer.result.least_host : nullptr;
}

JsonValue least_host_json(const plan::RatedPlan* plan) {
  if (plan == nullptr) {
    return {};
  }
  JsonFields fields;
  fields.add("bytes", plan->host);
  fields.add("capacity_bytes", plan->host_capacity);
  fields.add("summary", plan_words(plan->plan));
  return std::move(fields).finish();
}

/// The plan with the lowest known peak of a space in which no plan fits.
const plan::RatedPlan* leanest_of(const PlanAnswer& answer) {
  if (answer.infeasible && answer.infeasible->leanest) {
    return &*answer.infeasible->leanest;
  }
  return answer.result.leanest ? &*answer.result.leanest : nullptr;
}

std::string infeasible_lines(const PlanAnswer& answer) {
  const plan::PlanResult& result = answer.result;
  const plan::RatedPlan* lean = leanest_of(answer);
  std::string host_line;
  if (const auto& host = result.least_host) {
    host_line = host_need(*host, answer.search.device) + "\n  " + plan_words(host->plan) + "\n";
  }
  if (lean == nullptr && answer.infeasible && answer.infeasible->least_host) {
    const plan::RatedPlan& least = *answer.infeasible->least_host;
    return "whatever the GPU has, the host would need at least " + to_text(least.host) +
           "; the node has " + to_text(least.host_capacity) + "\n  " + plan_words(least.plan) +
           "\n";
  }
  if (lean == nullptr) {
    if (result.status != plan::PlanStatus::kInfeasible) {
      return "stopped before a plan that fits was found\n" + host_line;
    }
    return host_line.empty()
               ? "the parameters and optimizer states alone are too large in every plan\n"
               : host_line;
  }
  const Bytes usable =
      answer.search.budget > Bytes{0} ? answer.search.budget : answer.search.device.total;
  const bool proven = answer.infeasible && answer.infeasible->proven;
  return std::string(host_line.empty() ? "" : "of the plans that fit into the host's memory, ") +
         (proven ? "the smallest possible peak is " : "the smallest peak found is ") +
         to_text(lean->peak) + "; " + to_text(lean->capacity) + " can be allocated (" +
         to_text(usable) + " usable, less what lies outside PyTorch)" +
         (lean->peak <= lean->capacity ? ", but PyTorch reserves more than it allocates" : "") +
         "\n  " + plan_words(lean->plan) + "\n" + host_line;
}

JsonValue would_fit_json(const PlanAnswer& answer) {
  JsonValue::Array array;
  if (!answer.infeasible) {
    return JsonValue{std::move(array)};
  }
  for (const HeldChange& change : answer.held_changes) {
    JsonFields fields;
    fields.add("change", change_words(change));
    fields.add("command", one_line(change.command));
    fields.add("smallest", false);
    fields.add("verdict", name_of(change.remedy.verdict));
    fields.add("summary", plan_words(change.remedy.plan));
    fields.add("plan", ir::plan_to_json(change.remedy.plan));
    array.push_back(std::move(fields).finish());
  }
  const auto add = [&array](std::string change, std::string command, const plan::Mend& mend) {
    JsonFields fields;
    fields.add("change", std::move(change));
    fields.add("command", std::move(command));
    fields.add("smallest", mend.proven);
    fields.add("verdict", name_of(mend.verdict));
    fields.add("summary", plan_words(mend.plan.plan));
    fields.add("plan", ir::plan_to_json(mend.plan.plan));
    array.push_back(std::move(fields).finish());
  };
  for (const AdapterChange& one : answer.adapter_changes) {
    add(one.change, one.command, one.mend);
  }
  for (const plan::Mend& mend : answer.infeasible->mends) {
    add(mend_words(answer.arguments, mend), mend_command(answer.arguments, answer.search, mend),
        mend);
  }
  return JsonValue{std::move(array)};
}

/// A note for a search with a closed form, if that leaves out much of the model's work.
std::string doubt_line(double longer) {
  constexpr double kMuch = 1.25;
  return longer < kMuch
             ? ""
             : "  note: the closed form that the search goes by leaves out much of this\n"
               "  model's work: trust the replayed time, and the order of plans less\n";
}

/// The lines of `text`, each broken to the terminal's width. Commands stay whole.
std::string wrapped_lines(const std::string& text, const Terminal& terminal) {
  std::string wrapped;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.starts_with("  headroom ")) {
      wrapped += line + "\n";
    } else if (line.starts_with("  ")) {
      wrapped += "  " + wrap(line.substr(2), terminal.width - 4, 4) + "\n";
    } else {
      wrapped += wrap(line, terminal.width - 2, 2) + "\n";
    }
    begin = end + 1;
  }
  return wrapped;
}

}  // namespace

double tokens_per_second(const PlanSearch& search, const plan::RatedPlan& plan) {
  return static_cast<double>(search.global_batch) *
         static_cast<double>(plan.plan.workload.sequence) / plan.time.total().value();
}

std::string host_need(const plan::RatedPlan& plan, const cost::DeviceSpec& device) {
  return "plans that may fit the GPU need at least " + to_text(plan.host) +
         " of host memory; the node has " + to_text(plan.host_capacity) +
         (host_assumption(device).empty() ? "" : ", which is assumed (--host-memory)");
}

std::string bound_text(plan::Objective objective, double bound) {
  const std::int64_t whole = std::llround(bound);
  switch (objective) {
    case plan::Objective::kThroughput:
      return duration_text(bound);
    case plan::Objective::kGpus:
      return counted(whole, "GPU");
    case plan::Objective::kMemory:
      return to_text(Bytes{std::llround(bound)});
    case plan::Objective::kCost:
      return three_digits(bound) + " GPU seconds";
    case plan::Objective::kMicroBatch:
      return counted(whole, "sequence");
    case plan::Objective::kSequence:
      return counted(whole, "token");
  }
  return with_commas(whole);
}

std::string plan_answer_json(const PlanAnswer& answer) {
  const plan::PlanResult& result = answer.result;
  JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("status", name_of(result.status));
  fields.add("space", result.space);
  fields.add("evaluated", result.evaluated);
  fields.add("rejected_by_replay", result.rejected);
  fields.add("replays", result.replays);
  fields.add("lowered_whole", result.memory.lowered);
  const bool bounded = result.status != plan::PlanStatus::kInfeasible && !result.cut;
  fields.add("objective", ir::word_of(plan::objective_words(), answer.search.objective));
  fields.add("confidence", answer.search.confidence);
  fields.add("routing_imbalance",
             answer.search.model.spec.moe ? JsonValue{answer.search.imbalance} : JsonValue{});
  fields.add("expert_load", load_of_best(answer));
  fields.add("bound", bounded ? JsonValue{result.bound} : JsonValue{});
  fields.add("gap", result.best ? JsonValue{result.gap} : JsonValue{});
  fields.add("passed_over", result.passed_over);
  fields.add("seconds", answer.seconds);
  const bool found = result.best && result.estimate;
  fields.add("summary", found ? JsonValue{plan_words(result.best->plan)} : JsonValue{});
  fields.add("plan", found ? ir::plan_to_json(result.best->plan) : JsonValue{});
  fields.add("estimate", found ? std::move(estimate_fields(answer)).finish() : JsonValue{});
  const plan::RatedPlan* lean = result.best ? nullptr : leanest_of(answer);
  fields.add("least_peak_bytes", lean != nullptr ? JsonValue{lean->peak.value()} : JsonValue{});
  fields.add("least_peak_proven", answer.infeasible && answer.infeasible->proven);
  fields.add("least_host", least_host_json(result.best ? nullptr : least_host_of(answer)));
  fields.add("would_fit", would_fit_json(answer));
  fields.add("gpu", answer.search.device.name);
  fields.add("run", run_json(answer.run));
  fields.add("late", result.late);
  fields.add("fastest", fastest_json(answer));
  fields.add("choices", choices_json(answer));
  fields.add("frameworks", framework_json(answer));
  fields.add("left_out", left_out_json(answer));
  fields.add("offers", offers_json(answer));
  fields.add("held", held_json(answer));
  fields.add("front", front_json(answer));
  fields.add("front_whole", result.front_whole);
  fields.add("front_gap", !result.front.empty() && std::isfinite(result.front_gap)
                              ? JsonValue{result.front_gap}
                              : JsonValue{});
  fields.add("replayed", replayed_json(answer));
  std::vector<std::string> why;
  for (std::size_t begin = 0; begin < answer.why.size();) {
    const std::size_t end = answer.why.find('\n', begin);
    why.push_back(answer.why.substr(begin, end - begin));
    begin = end + 1;
  }
  fields.add("why", ir::json_texts(why));
  fields.add("placements", placement_json(answer.placements));
  fields.add("commands", answer.commands ? commands_json(*answer.commands) : JsonValue{});
  fields.add("plan_file", answer.file ? ir::plan_file_to_json(*answer.file) : JsonValue{});
  fields.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(fields).finish()) + "\n";
}

std::string plan_answer_text(const PlanAnswer& answer, const Terminal& terminal) {
  const plan::PlanResult& result = answer.result;
  std::string text = styled(terminal, Style::kStrong, head_line(answer)) + "\n";
  if (result.best && result.estimate) {
    const cost::StepEstimate& estimate = *result.estimate;
    text += wrap(plan_words(result.best->plan), terminal.width - 2, 2) + "\n\n";
    text += step_lines(answer, terminal) + time_lines(answer);
    if (estimate.time) {
      text += doubt_line(estimate.time->total / result.best->time.total());
    }
    text += "\n" + memory_lines(estimate, terminal) + chance_line(answer, terminal) +
            host_summary(estimate.host);
  } else if (result.late) {
    text += late_lines(answer, terminal);
  } else {
    text += wrapped_lines(infeasible_lines(answer), terminal);
  }
  text += choice_lines(answer, terminal);
  text += framework_lines(answer, terminal);
  text += left_out_lines(answer, terminal);
  text += offer_lines(answer, terminal);
  text += replayed_lines(answer);
  text += front_lines(answer);
  std::string counts =
      counted(result.space, "plan") + ": " +
      with_commas(static_cast<std::int64_t>(result.evaluated)) + " computed in full, the others " +
      (result.status == plan::PlanStatus::kFeasible || result.status == plan::PlanStatus::kUnknown
           ? "not yet seen or ruled out by bounds"
           : "ruled out by bounds") +
      (result.replays > 0
           ? "; " + with_commas(static_cast<std::int64_t>(result.replays)) + " replayed" +
                 (result.status == plan::PlanStatus::kOptimal &&
                          answer.search.objective == plan::Objective::kThroughput
                      ? (passes_over(answer.result)
                             ? ", no other that fits without emptying the cache is faster"
                             : ", no other is faster")
                      : "")
           : "") +
      "; the search took " + duration_text(answer.seconds);
  if (result.cut) {
    counts +=
        ", and ended before it had listed all plans, so that nothing is known about the others";
  } else if (result.status == plan::PlanStatus::kFeasible) {
    counts += ", bound " + bound_text(answer.search.objective, result.bound) + ", gap " +
              aligned_percent(result.gap, 1);
  }
  text += "\n" + wrap(counts, terminal.width - 2, 2) + "\n" + held_lines(answer, terminal);
  if (!answer.why.empty() || answer.infeasible) {
    text +=
        "\n" + wrapped_lines(answer.why, terminal) +
        (answer.infeasible
             ? wrapped_lines(held_change_lines(answer.held_changes) +
                                 adapter_change_lines(answer.adapter_changes) +
                                 mend_lines(answer.arguments, answer.search, *answer.infeasible),
                             terminal)
             : "");
  }
  if (!answer.placements.empty()) {
    text += "\n" + placement_lines(answer.placements, {.result = result,
                                                       .confidence = answer.search.confidence,
                                                       .width = terminal.width});
  }
  if (answer.commands) {
    text += commands_text(*answer.commands, terminal);
  }
  return text;
}

}  // namespace headroom::cli
