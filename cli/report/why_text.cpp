#include "cli/report/why_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/question.h"
#include "cli/scalars.h"
#include "cli/shell_words.h"
#include "cli/time_options.h"
#include "model_ir/base/counted.h"
#include "model_ir/base/error.h"
#include "model_ir/plan/plan_words.h"
#include "planner/space/all_axes.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

std::string too_large(const plan::WhyNot& why) {
  if (!why.plan || !why.replay) {
    return "no such plan fits: parameters, gradients and optimizer states alone are too large";
  }
  const cost::StepEstimate& replay = *why.replay;
  const Bytes missing = -replay.margin;
  const std::string lack = missing > Bytes{0} ? "is " + to_text(missing) + " short"
                                              : std::string("leaves too little to spare");
  return "no such plan fits; the leanest (" + plan_words(why.plan->plan) + ") " + lack + " in " +
         replay.peak_moment + " on rank " + std::to_string(static_cast<std::int32_t>(replay.rank));
}

std::string slower(const plan::PlanResult& found, const plan::WhyNot& why) {
  const double best = found.best ? found.step().value() : 0;
  if (!found.best) {
    return "fits: " + plan_words(why.plan->plan);
  }
  const std::string share = percent_text(std::abs(why.seconds_lost) / best);
  const std::string how = why.seconds_lost >= 0
                              ? duration_text(why.seconds_lost) + " a step (" + share + ") slower"
                              : duration_text(-why.seconds_lost) + " a step (" + share + ") faster";
  return how + ": " + plan_words(why.plan->plan);
}

/// In hundredths of a GiB, rounded up: what it names is at least `bytes`.
std::string rounded_up(Bytes bytes) {
  constexpr std::int64_t kPerGib = 100;
  const std::int64_t hundredths = ceil_div(bytes.value() * kPerGib, kGiB);
  std::string text = std::to_string(hundredths / kPerGib) + ".";
  text += hundredths % kPerGib < 10 ? "0" : "";
  return text + std::to_string(hundredths % kPerGib);
}

/// The value of --qlora with the keys that --lora has, too.
std::string without_quantisation(const std::string& qlora) {
  std::string text;
  for (const std::string& word : split_at(qlora, ',')) {
    const std::string key = word.substr(0, word.find('='));
    if (key != "bits" && key != "double-quant" && key != "prepare") {
      text += (text.empty() ? "" : ",") + word;
    }
  }
  return text;
}

/// Whether frozen weights of 16 bits in place of quantised ones are the mend: QLoRA becomes LoRA.
bool drops_quantisation(const Arguments& arguments, const plan::Mend& mend) {
  return mend.kind == plan::Mend::Kind::kAxis && mend.axis == plan::Axis::kFrozenWeights &&
         mend.value >= 0 && plan::value_text(mend.axis, mend.value) == "16-bit" &&
         arguments.value("qlora").has_value();
}

/// The options of the question that a mend changes.
std::vector<OptionValue> changed_by(const PlanSearch& search, const plan::Mend& mend) {
  switch (mend.kind) {
    case plan::Mend::Kind::kBudget:
      return {{"budget", rounded_up(Bytes{mend.value}) + "GiB"}};
    case plan::Mend::Kind::kHost:
      return {{"host-memory", std::to_string(mend.value / kGiB) + "GiB"}};
    case plan::Mend::Kind::kGpus: {
      const std::int64_t batch = mend.batch > 0 ? mend.batch : search.global_batch;
      return {{"gpus", std::to_string(mend.value)}, {"global-batch", std::to_string(batch)}};
    }
    case plan::Mend::Kind::kSequence:
      return {{"seq", std::to_string(mend.value)}};
    case plan::Mend::Kind::kAxis:
      return {{std::string(plan::option_of(mend.axis)),
               mend.value < 0 ? "any" : plan::value_text(mend.axis, mend.value)}};
    case plan::Mend::Kind::kDevice:
      return {{"gpu", mend.device}};
  }
  return {};
}

}  // namespace

std::string plan_words(const ir::ParallelPlan& plan) {
  return ir::runtime_of(plan).describe(plan);
}

std::string why_line(const plan::PlanResult& found, const plan::WhyNot& why) {
  std::string text =
      std::string(plan::option_of(why.axis)) + " " + plan::value_text(why.axis, why.value) + ": ";
  switch (why.kind) {
    case plan::WhyNot::Kind::kChosen:
      return text + "the plan has it";
    case plan::WhyNot::Kind::kNotInSpace:
      return text + "no plan of the space has it" +
             (why.refusal.empty() ? "" : " (" + why.refusal + ")");
    case plan::WhyNot::Kind::kTooLarge:
      return text + too_large(why);
    case plan::WhyNot::Kind::kSlower:
      return text + slower(found, why);
    case plan::WhyNot::Kind::kUnknown:
      return text + "the search with it stopped before it found a plan";
  }
  return text;
}

std::string mend_words(const Arguments& arguments, const plan::Mend& mend) {
  if (drops_quantisation(arguments, mend)) {
    return "LoRA on 16-bit weights in place of QLoRA";
  }
  switch (mend.kind) {
    case plan::Mend::Kind::kBudget:
      return rounded_up(Bytes{mend.value}) + " GiB of GPU memory";
    case plan::Mend::Kind::kHost:
      return std::to_string(mend.value / kGiB) + " GiB of host memory in the node";
    case plan::Mend::Kind::kGpus:
      return counted(mend.value, "GPU") +
             (mend.batch > 0 ? " and --global-batch " + std::to_string(mend.batch) : "");
    case plan::Mend::Kind::kSequence:
      return "--seq " + std::to_string(mend.value);
    case plan::Mend::Kind::kAxis:
      return "--" + std::string(plan::option_of(mend.axis)) + " " +
             (mend.value < 0 ? "any" : plan::value_text(mend.axis, mend.value));
    case plan::Mend::Kind::kDevice:
      return "--gpu " + mend.device + " (" + to_text(Bytes{mend.value}) + ")";
  }
  return "";
}

std::string proof_words(const plan::Mend& mend) {
  return " (replayed: " + std::string(cost::verdict_words(mend.verdict, mend.chance)) +
         "), for example " + plan_words(mend.plan.plan);
}

std::string mend_command(const Arguments& arguments, const PlanSearch& search,
                         const plan::Mend& mend) {
  Arguments changed = arguments;
  if (mend.kind == plan::Mend::Kind::kDevice) {
    for (const std::string_view option : options_of_device()) {
      changed.remove(option);
    }
  }
  if (drops_quantisation(arguments, mend)) {
    changed.remove("qlora");
    changed.remove("frozen-weights");
    changed.remove("lora");
    changed.set("lora", without_quantisation(*arguments.value("qlora")));
    return search_command(changed);
  }
  for (const OptionValue& option : changed_by(search, mend)) {
    changed.remove(option.name);
    changed.set(option.name, option.value);
  }
  return search_command(changed);
}

std::string search_command(const Arguments& arguments) {
  std::string line = "headroom plan";
  for (const std::string& positional : arguments.positionals()) {
    line += " " + shell_word(positional);
  }
  const std::vector<OptionSpec> options = plan_search_options();
  for (const OptionSpec& spec : options) {
    if (const std::optional<std::string> value = arguments.value(spec.name)) {
      line += " " + typed_option({.name = std::string(spec.name), .value = *value}, options);
    }
  }
  return line;
}

std::string mend_lines(const Arguments& arguments, const PlanSearch& search,
                       const plan::Infeasibility& why) {
  std::string text;
  for (const plan::Mend& mend : why.mends) {
    text += "would fit with " + mend_words(arguments, mend) + proof_words(mend) + "\n  " +
            mend_command(arguments, search, mend) + "\n";
  }
  return text;
}

Result<plan::Alternative> parse_alternative(const std::string& text) {
  std::vector<std::string> known;
  const std::size_t middle = text.find('=');
  for (const plan::Axis axis : plan::all_axes()) {
    known.emplace_back(axis->option);
    if (middle == std::string::npos || text.substr(0, middle) != axis->option) {
      continue;
    }
    const Result<plan::AxisValues> values = plan::parse_axis(axis, text.substr(middle + 1));
    if (!values) {
      return values.error();
    }
    if (values->size() == 1) {
      return plan::Alternative{axis, values->front()};
    }
  }
  const std::optional<std::string> closest = closest_word(text.substr(0, middle), known);
  return Error::invalid_argument(
      "why", text, "AXIS=VALUE, where AXIS is an option of headroom plan",
      closest ? "use --why " + *closest + "=VALUE" : std::string("for example --why tp=8"));
}

}  // namespace headroom::cli
