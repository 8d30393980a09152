#include "cli/report/fit_answer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "cli/framework_options.h"
#include "cli/option_text.h"
#include "cli/plan_options.h"
#include "cli/report/host_text.h"
#include "cli/report/remedies_text.h"
#include "cli/report/time_report.h"
#include "cli/scalars.h"
#include "cli/shell_words.h"
#include "model_ir/base/counted.h"
#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/recording/recording.h"
#include "model_ir/spec/task.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

constexpr std::size_t kRoleColumns = 18;
constexpr std::size_t kTermColumns = 28;
constexpr std::size_t kSizeColumns = 10;
constexpr std::size_t kMostPhases = 9;
constexpr std::size_t kMostTextGroups = 5;
constexpr double kFragmentationFlag = 0.2;

std::string figure(Bytes bytes, const TableUnit& unit) {
  return pad_left(table_figure(bytes, unit), kSizeColumns);
}

TableUnit unit_for(Bytes largest) {
  return unit_of_bytes(static_cast<double>(largest.value()));
}

Style style_of(cost::Verdict verdict) {
  switch (verdict) {
    case cost::Verdict::kFits:
      return Style::kGood;
    case cost::Verdict::kTight:
      return Style::kWarning;
    case cost::Verdict::kDoesNotFit:
      return Style::kBad;
  }
  return Style::kPlain;
}

/// Whether the device's memory holds the prediction, and hardly ever what a run takes.
bool is_too_little(const cost::StepEstimate& estimate) {
  return estimate.device_verdict == cost::Verdict::kDoesNotFit && estimate.margin >= Bytes{0};
}

std::string margin_text(const cost::StepEstimate& estimate) {
  const std::string shortage = host_shortage(estimate.host);
  if (!shortage.empty() && estimate.margin >= Bytes{0}) {
    return shortage;
  }
  if (estimate.margin < Bytes{0}) {
    return to_text(-estimate.margin) + " short";
  }
  return (is_too_little(estimate) ? "only " : "") + to_text(estimate.margin) + " to spare";
}

/// ", chance to fit 62.1 %" where the interval straddles the capacity.
std::string chance_text(const FitAnswer& answer) {
  const cost::StepEstimate& estimate = answer.estimate;
  if (is_too_little(estimate) && estimate.chance) {
    return ", chance to fit " + percent_text(*estimate.chance);
  }
  const bool open = errors_apply(answer) && estimate.chance &&
                    estimate.device_verdict == cost::Verdict::kTight &&
                    *estimate.chance < cost::kConfidenceLevel;
  if (open) {
    return ", chance to fit " + percent_text(*estimate.chance);
  }
  if (!errors_apply(answer) || !cost::counts_on_emptying(estimate, answer.confidence)) {
    return "";
  }
  constexpr double kEven = 0.5;
  const std::string how = estimate.retries > 0                        ? ""
                          : answer.confidence.chances.at_once < kEven ? "probably "
                                                                      : "perhaps ";
  return ", " + how + "only by emptying PyTorch's cache";
}

std::string verdict_line(const FitAnswer& answer, const Terminal& terminal) {
  const Question& question = answer.question;
  const cost::StepEstimate& estimate = answer.estimate;
  const std::string subject = question.model.label + " on " +
                              std::to_string(question.request.plan.world) + " x " +
                              question.device.name + " (" + to_text(estimate.device_total) +
                              (question.budget > Bytes{0} ? " budget" : " usable") + "):";
  const bool yes = cost::is_yes(estimate.verdict, estimate.chance);
  const bool doubtful = estimate.verdict == cost::Verdict::kTight && !yes;
  std::string verdict =
      std::string(cost::verdict_words(estimate.verdict, estimate.chance)) +
      (host_shortage(estimate.host).empty() && !doubtful && !is_too_little(estimate) ? ", "
                                                                                     : ": ") +
      margin_text(estimate);
  verdict += chance_text(answer);
  const bool one_line = columns_of(subject) + 1 + columns_of(verdict) <= terminal.width;
  return subject + (one_line ? " " : "\n  ") +
         styled(terminal, doubtful ? Style::kBad : style_of(estimate.verdict), verdict) + "\n";
}

/// The keys of an option's value that the words of `worded` do not express.
std::string other_keys(std::string_view value, const ir::WordedOption& worded) {
  std::string others;
  while (!value.empty()) {
    const std::string_view key = value.substr(0, value.find(','));
    value.remove_prefix(std::min(key.size() + 1, value.size()));
    const std::string_view name = key.substr(0, key.find('='));
    const bool in_words = worded.keys.empty() ||
                          std::ranges::find(worded.keys, name) != worded.keys.end() ||
                          std::ranges::find(worded.keys, key) != worded.keys.end();
    if (!in_words) {
      others += (others.empty() ? "" : ",") + std::string(key);
    }
  }
  return others;
}

/// The options that the words of the line do not express: ", --clip-norm 1, --liger".
std::string other_options(const std::vector<OptionValue>& options, const ir::Runtime& runtime) {
  constexpr std::array<std::string_view, 10> kInWords = {
      "gpus",          "precision", "micro-batch", "seq",  "accumulation",
      "checkpointing", "optimizer", "attention",   "lora", "qlora"};
  const std::vector<ir::WordedOption> worded = runtime.worded_options();
  std::string text;
  for (const OptionValue& option : options) {
    if (std::ranges::find(kInWords, option.name) != kInWords.end()) {
      continue;
    }
    const auto words = std::ranges::find(worded, option.name, &ir::WordedOption::option);
    const std::string value =
        words == worded.end() ? option.value : other_keys(option.value, *words);
    if (words == worded.end() || !value.empty()) {
      text += ", --" + option.name + (value.empty() ? "" : " " + value);
    }
  }
  return text;
}

std::string plan_line(const FitAnswer& answer, const Terminal& terminal) {
  const ir::ParallelPlan& plan = answer.question.request.plan;
  const ir::Runtime& runtime = ir::runtime_of(plan);
  const std::vector<OptionValue> options = options_of(plan, answer.question.model.spec);
  const std::string layout = runtime.layout(plan, [&options](std::string_view name) {
    const auto option = std::ranges::find(options, name, &OptionValue::name);
    return option == options.end() ? std::string() : option->value;
  });
  std::string text = plan.runtime + (layout.empty() ? "" : " " + layout);
  const auto add = [&](const std::string& part) { text += ", " + part; };
  add(std::string(ir::word_of(ir::precision_words(), plan.precision)));
  add(std::string(ir::word_of(ir::optimizer_words(), plan.optimizer)));
  add(runtime.kernels(plan));
  add("micro-batch " + std::to_string(plan.workload.micro_batch) + " x " +
      std::to_string(plan.workload.sequence) + " tokens");
  if (plan.workload.accumulation > 1) {
    add("accumulation " + std::to_string(plan.workload.accumulation));
  }
  if (plan.recompute != ir::Recompute::kNone) {
    add("checkpointing " + ir::checkpointing_text(ir::checkpointing_of(plan)));
  }
  if (plan.lora) {
    add((plan.quant ? "QLoRA " : "LoRA ") + adapter_text(plan));
  }
  if (const ir::Task task = answer.question.model.spec.task; task != ir::Task::kLanguage) {
    add(std::string(name_of(task)));
  }
  text += other_options(options, runtime);
  return styled(terminal, Style::kFaint, wrap(text, terminal.width - 2, 2)) + "\n";
}

/// "8.03 billion", "124 million": three significant digits.
std::string rounded_count(std::int64_t count) {
  constexpr std::array<std::pair<double, std::string_view>, 3> kScales = {
      {{1e9, " billion"}, {1e6, " million"}, {1e3, " thousand"}}};
  const auto value = static_cast<double>(count);
  for (const auto& [scale, word] : kScales) {
    if (value >= scale) {
      const double scaled = value / scale;
      const int digits = scaled < 10 ? 2 : scaled < 100 ? 1 : 0;
      return decimal_text(scaled, digits) + std::string(word);
    }
  }
  return std::to_string(count);
}

/// The number of parameters that a recording says are not trained.
std::int64_t frozen_parameters(const ir::ModelSpec& model) {
  std::int64_t frozen = 0;
  if (model.recording) {
    for (const ir::RecordedParameter& parameter : model.recording->parameters) {
      const std::int64_t elements = std::accumulate(parameter.dims.begin(), parameter.dims.end(),
                                                    std::int64_t{1}, std::multiplies<>());
      frozen += parameter.trainable ? 0 : elements;
    }
  }
  return frozen;
}

/// "8.03 billion parameters, 41.9 million trained (LoRA on all linear layers)".
std::string parameters_line(const FitAnswer& answer, const Terminal& terminal) {
  const ir::ParameterCount count = ir::count_parameters(answer.question.model.spec);
  const ir::ParallelPlan& plan = answer.question.request.plan;
  std::string text = rounded_count(count.total()) + " parameters";
  if (count.active() < count.total()) {
    text += " (" + rounded_count(count.active()) + " per token)";
  }
  if (plan.lora) {
    const std::string targets =
        plan.lora->targets.empty() ? "all linear layers" : ir::join(plan.lora->targets);
    text += ", " + rounded_count(answer.estimate.program.trainable_parameters) +
            " trained (LoRA on " + targets + ")";
  } else if (const std::int64_t frozen = frozen_parameters(answer.question.model.spec)) {
    text += ", " + rounded_count(count.total() - frozen) + " trained";
  } else {
    text += ", all trained";
  }
  return styled(terminal, Style::kFaint, wrap(text, terminal.width - 2, 2)) + "\n";
}

/// "assumed: micro-batch 1, seq 2048": what changes the answer most and was not asked for. A
/// plan or a configuration from a file assumes nothing.
std::string assumed_line(const FitAnswer& answer, const Terminal& terminal) {
  const Arguments& arguments = answer.arguments;
  const ir::ParallelPlan& plan = answer.question.request.plan;
  const auto reads_file = [&arguments](const ReadableFile& file) {
    return arguments.has(file.format.option);
  };
  if (arguments.has("plan") || std::ranges::any_of(readable_files(), reads_file)) {
    return {};
  }
  std::string text;
  for (const std::string_view name : {"precision", "micro_batch", "sequence"}) {
    const ir::OptionField& field = *ir::find_field(ir::plan_options().fields, name);
    if (!arguments.has(field.option)) {
      text += (text.empty() ? "assumed: " : ", ") + std::string(field.option) + " " +
              value_text(field, field.get(plan));
    }
  }
  if (!arguments.has("optimizer")) {
    text += (text.empty() ? "assumed: " : ", ") + std::string("optimizer ") +
            std::string(ir::word_of(ir::optimizer_words(), plan.optimizer));
  }
  return text.empty() ? text
                      : styled(terminal, Style::kFaint, wrap(text, terminal.width - 2, 2)) + "\n";
}

std::string failure_line(const FitAnswer& answer) {
  const cost::StepEstimate& estimate = answer.estimate;
  if (!estimate.failure) {
    return {};
  }
  const cost::OutOfMemory& failure = *estimate.failure;
  const ir::PhaseName phase = failure.phase < estimate.program.phases.size()
                                  ? estimate.program.phases[failure.phase].name
                                  : ir::PhaseName{};
  return "out of memory in " +
         cost::moment_text(phase, cost::site_of(estimate.program, failure.event)) +
         ", asking for " + to_text(failure.requested) + "\n";
}

std::string breakdown(const FitAnswer& answer, const Terminal& terminal) {
  const cost::StepEstimate& estimate = answer.estimate;
  const ir::ParallelPlan& plan = answer.question.request.plan;
  const bool several = ir::runtime_of(plan).names_rank(plan) || plan.rank.has_value();
  const std::string where =
      several ? ", on rank " + std::to_string(static_cast<std::int32_t>(estimate.rank)) : "";
  const std::string peak =
      to_text(estimate.peak_allocated) + " allocated in " + estimate.peak_moment + where;
  std::string text = heading(
      terminal, estimate.out_of_memory ? wrap("with unlimited memory the run would peak at " + peak,
                                              terminal.width - 2, 2)
                                       : "peak " + peak);
  std::array<std::size_t, ir::kTensorRoleCount> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t role) { return estimate.peak_by_role[role]; });
  const auto whole =
      static_cast<double>(std::max(estimate.peak_allocated.value(), std::int64_t{1}));
  const std::size_t room = terminal.width - kRoleColumns - kSizeColumns - 4;
  const TableUnit unit = unit_for(estimate.peak_allocated);
  for (const std::size_t role : order) {
    const Bytes bytes = estimate.peak_by_role[role];
    if (bytes == Bytes{0}) {
      continue;
    }
    const double share = static_cast<double>(bytes.value()) / whole;
    text += "  " + pad_right(name_of(static_cast<ir::TensorRole>(role)), kRoleColumns) +
            figure(bytes, unit) + "  " + bar(terminal, share, room) + "\n";
  }
  return text;
}

/// The communication of the last step, by operation. Empty if the step is not distributed.
std::string communication(const FitAnswer& answer, const Terminal& terminal) {
  struct Sum {
    ir::CollectiveKind kind{};
    std::int64_t calls = 0;
    Bytes bytes;
  };
  std::vector<Sum> sums;
  for (const ir::Phase& phase : answer.estimate.program.phases) {
    if (phase.name.at.step != answer.question.request.plan.workload.steps ||
        phase.name.kind == ir::PhaseKind::kWholeStep) {
      continue;
    }
    for (const ir::Work::Collective& collective : phase.work.collectives) {
      if (collective.ranks == 1) {
        continue;  // Nothing is transferred.
      }
      auto sum = std::ranges::find(sums, collective.kind, &Sum::kind);
      if (sum == sums.end()) {
        sum = sums.insert(sums.end(), Sum{collective.kind, 0, Bytes{0}});
      }
      sum->calls += collective.calls;
      sum->bytes += Bytes{collective.bytes};
    }
  }
  const ir::ParallelPlan& plan = answer.question.request.plan;
  const std::int64_t replayed = cost::replayed_micro_batches(plan);
  const std::string of = replayed < plan.workload.accumulation
                             ? " with " + counted(replayed, "micro-batch", "micro-batches") +
                                   " of its " + with_commas(plan.workload.accumulation)
                             : "";
  Bytes largest;
  for (const Sum& sum : sums) {
    largest = std::max(largest, sum.bytes);
  }
  const TableUnit unit = unit_for(largest);
  std::string text =
      sums.empty() ? "" : heading(terminal, "communication of one step" + of + ", each rank");
  for (const Sum& sum : sums) {
    text += "  " + pad_right(ir::name_of(sum.kind), kTermColumns) + figure(sum.bytes, unit) +
            "  in " + counted(sum.calls, "call") + "\n";
  }
  return text;
}

/// Whether PyTorch empties its cache to fit, or may have to, and with how little it can do then.
std::string emptied_cache_line(const FitAnswer& answer) {
  const cost::StepEstimate& estimate = answer.estimate;
  const cost::Confidence& confidence = answer.confidence;
  if (!cost::counts_on_emptying(estimate, confidence)) {
    return {};
  }
  if (estimate.retries > 0) {
    return "  " + pad_right("enough for PyTorch", kTermColumns) +
           pad_left(to_text(*confidence.needed), kSizeColumns) +
           "  it then empties its cache more often\n";
  }
  return "  " + pad_right("chance to fit at once", kTermColumns) +
         pad_left(percent_text(confidence.chances.at_once), kSizeColumns) +
         "  otherwise PyTorch empties its cache; " + to_text(*confidence.needed) +
         " are enough for it\n";
}

/// The intervals of the reserved peak, the probability that the plan fits, and their basis.
std::string confidence_lines(const FitAnswer& answer) {
  const cost::Confidence& confidence = answer.confidence;
  const cost::ErrorModel& basis = confidence.basis;
  if (!errors_apply(answer)) {
    return "  " + pad_right("chance to fit", kTermColumns) +
           "not known: nothing was measured on such GPUs\n";
  }
  if (basis.runs == 0) {
    return {};
  }
  const std::string interval = to_text(confidence.reserved.low) + " to " +
                               to_text(confidence.reserved.high) +
                               (cost::counts_on_emptying(answer.estimate, confidence) &&
                                        confidence.reserved.high > answer.estimate.capacity
                                    ? " on a GPU with more memory"
                                    : "");
  const std::string known = basis.own_runs > 0
                                ? counted(basis.own_runs, "run") + " of yours"
                                : counted(basis.runs, "run") + ", " +
                                      with_commas(static_cast<std::int64_t>(basis.gpu_runs)) +
                                      (basis.runs == 1 ? "" : " of them") + " on real GPUs" +
                                      (basis.borrowed ? ", some of other runtimes" : "");
  return "  " + pad_right("reserved, 95 % interval", kTermColumns) + interval + "\n  " +
         pad_right(answer.estimate.host.fits() ? "chance to fit" : "chance to fit the GPU",
                   kTermColumns) +
         pad_left(percent_text(confidence.chances.fits), kSizeColumns) + "  from " + known + "\n" +
         emptied_cache_line(answer);
}

/// What the busiest expert-parallel rank reserves, depending on the imbalance of the routing.
std::string routing_lines(const FitAnswer& answer, const TableUnit& unit) {
  const auto line = [&unit](const std::string& name, Bytes reserved, const std::string& remark) {
    return "  " + pad_right(name, kTermColumns) + figure(reserved, unit) + remark + "\n";
  };
  const auto times = [](double load) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), ", %.2f x", load);
    return std::string(text.data());
  };
  std::string text;
  if (answer.routing) {
    const RoutingAnswer& routing = *answer.routing;
    text += line("tokens routed evenly", routing.balanced, "  reserved") +
            line("busiest rank" + times(routing.load.expected), routing.expected, "  expected") +
            line("busiest rank" + times(routing.load.p95), answer.estimate.peak_reserved,
                 "  one step in twenty: the verdict's");
  }
  if (answer.worst && answer.worst->load.bound == 1) {
    text += line("worst routing", answer.worst->reserved, "  no routing changes the peak");
  } else if (answer.worst) {
    text += line("worst routing" + times(answer.worst->load.reached), answer.worst->reserved,
                 "  all tokens to one rank: " + std::string(name_of(answer.worst->verdict)));
  }
  return text;
}

std::string limits(const FitAnswer& answer, const Terminal& terminal) {
  const cost::StepEstimate& estimate = answer.estimate;
  const double fragmentation = fragmentation_of(estimate);
  const TableUnit unit = unit_for(std::max(estimate.peak_reserved, estimate.device_total));
  const auto line = [&unit](std::string_view name, Bytes bytes, const std::string& remark) {
    return "  " + pad_right(name, kTermColumns) + figure(bytes, unit) +
           (remark.empty() ? "" : "  " + remark) + "\n";
  };
  std::string text = heading(terminal, "against the device");
  text += line("reserved by PyTorch", estimate.peak_reserved,
               "fragmentation " + percent_text(fragmentation));
  for (const cost::OutsideTerm& term : estimate.outside) {
    std::string remark(name_of(term.basis));
    remark += term.bound > term.bytes ? ", up to " + table_figure(term.bound, unit) : "";
    text += line(term.name, term.bytes, remark);
  }
  text += line("device", estimate.device_total,
               answer.question.budget > Bytes{0} ? "--budget"
                                                 : "usable, of " + answer.question.device.product);
  text += line(
      estimate.margin < Bytes{0} ? "short" : "to spare", Bytes{std::abs(estimate.margin.value())},
      estimate.retries > 0 && !estimate.out_of_memory
          ? "fits only because PyTorch empties its cache " +
                (estimate.retries == 1 ? std::string("once") : counted(estimate.retries, "time"))
          : "");
  text += routing_lines(answer, unit) + confidence_lines(answer);
  if (fragmentation > kFragmentationFlag) {
    const bool grows = answer.question.request.plan.allocator.expandable_segments;
    text += grows ? "  fragmentation is high, although segments can grow\n"
                  : "  fragmentation is high: try --alloc-conf expandable_segments:True\n";
  }
  return text + host_lines(estimate, answer.question.device, terminal) +
         communication(answer, terminal);
}

/// The phases to show: all of them, or only those of the last step if there are many.
std::vector<const cost::PhaseMemory*> shown_phases(const cost::StepEstimate& estimate) {
  const std::vector<cost::PhaseMemory>& phases = estimate.timeline.phases;
  std::vector<const cost::PhaseMemory*> shown;
  shown.reserve(phases.size());
  for (const cost::PhaseMemory& phase : phases) {
    shown.push_back(&phase);
  }
  if (shown.size() <= kMostPhases) {
    return shown;
  }
  // The phases with the highest peaks, in the order of time.
  std::ranges::stable_sort(shown, std::ranges::greater{}, &cost::PhaseMemory::peak_allocated);
  shown.resize(kMostPhases);
  std::ranges::sort(shown);
  return shown;
}

std::string phases(const FitAnswer& answer, const Terminal& terminal) {
  const auto shown = shown_phases(answer.estimate);
  const std::size_t left_out = answer.estimate.timeline.phases.size() - shown.size();
  std::size_t width = kRoleColumns;
  Bytes most;
  for (const cost::PhaseMemory* phase : shown) {
    width = std::max(width, columns_of(to_text(phase->name)));
    most = std::max(most, phase->peak_reserved);
  }
  const TableUnit unit = unit_for(most);
  constexpr std::array<std::string_view, 3> kColumns = {"peak allocated", "peak reserved",
                                                        "allocated at end"};
  std::string head = pad_right("phase", width + 2);
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    head += (i == 0 ? "" : "  ") + std::string(kColumns.at(i));
  }
  std::string text = heading(terminal, head);
  for (const cost::PhaseMemory* phase : shown) {
    const std::array<Bytes, kColumns.size()> sizes = {phase->peak_allocated, phase->peak_reserved,
                                                      phase->allocated_after};
    text += "  " + pad_right(to_text(phase->name), width);
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      text +=
          (i == 0 ? "" : "  ") + pad_left(table_figure(sizes.at(i), unit), kColumns.at(i).size());
    }
    text += "\n";
  }
  if (left_out > 0) {
    text += "  " + counted(left_out, "smaller phase") + " left out (--json has all)\n";
  }
  return text;
}

std::string largest(const FitAnswer& answer, const Terminal& terminal) {
  std::string text = heading(terminal, "largest at the peak");
  const std::size_t count = std::min(answer.live.size(), kMostTextGroups);
  const auto first = answer.live.begin();
  const auto last = first + static_cast<std::ptrdiff_t>(count);
  const auto most = [&](Bytes cost::LiveGroup::*size) {
    return count == 0 ? Bytes{0}
                      : (*std::max_element(
                            first, last,
                            [size](auto& one, auto& other) { return one.*size < other.*size; })).*
                            size;
  };
  const TableUnit unit = unit_for(most(&cost::LiveGroup::total));
  const TableUnit unit_each = unit_for(most(&cost::LiveGroup::each));
  for (std::size_t index = 0; index < count; ++index) {
    const cost::LiveGroup& group = answer.live[index];
    std::string what(name_of(group.role));
    if (!group.operation.empty() && group.operation != what) {
      what += " of " + group.operation;
    }
    text += "  " + figure(group.total, unit) + "  " +
            pad_left(with_commas(group.count) + " x " + table_figure(group.each, unit_each), 18) +
            "  " + what + "\n";
  }
  return text;
}

}  // namespace

std::string next_line(const FitAnswer& answer, const Terminal& terminal) {
  const std::string next = next_command(answer);
  const bool command = next.starts_with("headroom ");
  return "\nnext: " +
         (command ? break_command(next, terminal.width - 6) : wrap(next, terminal.width - 6, 6)) +
         "\n";
}

std::string fit_text(const FitAnswer& answer, const Terminal& terminal) {
  std::string text = verdict_line(answer, terminal) + plan_line(answer, terminal);
  text += parameters_line(answer, terminal) + assumed_line(answer, terminal);
  text += failure_line(answer);
  text += breakdown(answer, terminal) + limits(answer, terminal) + phases(answer, terminal) +
          largest(answer, terminal) +
          time_text({.request = answer.time,
                     .step = answer.estimate.time,
                     .interval = errors_apply(answer) ? answer.confidence.step_time : std::nullopt,
                     .runs = cost::is_yes(answer.estimate.verdict, answer.estimate.chance)},
                    terminal) +
          speedup_hint(answer) + speedups_text(answer, terminal) + remedies_text(answer, terminal);
  return text + next_line(answer, terminal);
}

}  // namespace headroom::cli
