#include "cli/report/remedies_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "cli/report/host_text.h"
#include "cli/scalars.h"

namespace headroom::cli {
namespace {

/// " (+25 % FLOPs)" where the count differs and the time is not known.
std::string flops_text(const cost::Remedy& remedy) {
  constexpr double kWorthMentioning = 0.005;
  const double extra = remedy.flops_ratio - 1;
  if (remedy.time_ratio > 0 || std::abs(extra) < kWorthMentioning) {
    return {};
  }
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), " (%+.0f %% matrix FLOPs)", extra * 100);
  return text.data();
}

/// "; +31 % step time" where it is known and differs.
std::string time_change(const cost::Remedy& remedy) {
  constexpr double kWorthMentioning = 0.005;
  if (remedy.time_ratio <= 0 || std::abs(remedy.time_ratio - 1) < kWorthMentioning) {
    return {};
  }
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "; %+.0f %% step time", (remedy.time_ratio - 1) * 100);
  return text.data();
}

/// `whose`: " of GPU memory", where the host was short.
std::string outcome(const cost::Remedy& remedy, bool errors_apply, const std::string& whose) {
  const std::string verdict(cost::verdict_words(remedy.verdict, remedy.chance));
  const std::string host = host_shortage(remedy.host);
  if (!host.empty() && remedy.margin >= Bytes{0}) {
    return verdict + ": " + host;
  }
  if (const Bytes least = cost::least_margin(remedy.margin, remedy.host);
      remedy.verdict == cost::Verdict::kTight && least < remedy.margin) {
    return verdict + ", " + to_text(least) + " of host memory to spare";
  }
  const std::string margin = remedy.margin < Bytes{0}
                                 ? to_text(-remedy.margin) + whose + " short"
                                 : to_text(remedy.margin) + whose + " to spare";
  const bool open = errors_apply && remedy.verdict == cost::Verdict::kTight && remedy.chance &&
                    *remedy.chance < cost::kConfidenceLevel;
  return verdict + ", " + margin + (open ? ", chance to fit " + percent_text(*remedy.chance) : "");
}

/// "; saves 11.4 GiB": of the memory that is short, the host's or the GPU's.
std::string savings(const FitAnswer& answer, const cost::Remedy& remedy) {
  const cost::HostMemory& before = answer.estimate.host;
  if (!before.fits() && before.capacity && remedy.host.capacity) {
    const Bytes saved = before.bytes - remedy.host.bytes;
    return saved > Bytes{0} ? "; saves " + to_text(saved) + " of host memory" : "";
  }
  return remedy.saved > Bytes{0} ? "; saves " + to_text(remedy.saved) : "";
}

/// "none (fewer kernels)" for "none: fewer kernels".
std::string worded_cost(std::string_view cost) {
  constexpr std::string_view kNone = "none: ";
  if (!cost.starts_with(kNone)) {
    return std::string(cost);
  }
  return "none (" + std::string(cost.substr(kNone.size())) + ")";
}

/// What the changes cost, each once. Changes that cost nothing are named only among themselves, and
/// not at all if the step takes longer with them.
std::string costs_of(const cost::Remedy& remedy) {
  const std::vector<cost::Change>& changes = remedy.changes;
  constexpr double kLonger = 1.005;  // What `time_change` mentions.
  const auto is_free = [](const cost::Change& change) {
    const std::string_view cost = cost::cost_of(change);
    return cost.starts_with("none") || cost.starts_with("practically none");
  };
  const bool all_free = std::ranges::all_of(changes, is_free);
  if (all_free && remedy.time_ratio >= kLonger) {
    return {};
  }
  std::string text;
  cost::Change previous{};
  for (const cost::Change& change : changes) {
    const bool again = change == previous;  // The micro-batch halved again.
    if (again || (!all_free && is_free(change)) || (all_free && !text.empty())) {
      continue;
    }
    text += (text.empty() ? "" : "; ") + worded_cost(cost::cost_of(change));
    previous = change;
  }
  return text;
}

std::string least_gpus_line(const FitAnswer& answer, const Terminal& terminal) {
  const std::int64_t least = answer.remedies->least_gpus;
  if (least <= answer.question.request.plan.world) {
    return {};
  }
  return "  " +
         wrap("parameters, gradients and states alone take " + std::to_string(least) +
                  " such GPUs, if all of them are sharded",
              terminal.width - 2, 2) +
         "\n";
}

/// "; trains with deepspeed in bf16-master" where the options alone do not say so.
std::string moved_to(const FitAnswer& answer, const cost::Remedy& remedy,
                     const std::string& changes) {
  const ir::ParallelPlan& asked = answer.question.request.plan;
  const std::string precision(ir::word_of(ir::precision_words(), remedy.plan.precision));
  const bool other_precision =
      remedy.plan.precision != asked.precision && changes.find("--precision") == std::string::npos;
  std::string text = remedy.plan.runtime == asked.runtime ? "" : " with " + remedy.plan.runtime;
  text += other_precision ? " in " + precision : "";
  return text.empty() ? "" : "; trains" + text;
}

/// The outcome, what it saves and how much longer a step takes; of a plan with other GPUs or other
/// weights only the outcome, because nothing else compares.
std::string effect_of(const FitAnswer& answer, const cost::Remedy& remedy, bool compares) {
  const std::string whose = answer.estimate.host.fits() ? "" : " of GPU memory";
  const std::string verdict = outcome(remedy, errors_apply(answer), whose);
  return compares ? verdict + savings(answer, remedy) : verdict;
}

std::string remedy_lines(const FitAnswer& answer, const cost::Remedy& remedy,
                         const Terminal& terminal, bool compares = true) {
  const bool whole = answer.question.request.plan.quant && !remedy.plan.quant;
  const std::string known = costs_of(remedy);
  const std::string costs = std::string(whole ? "the frozen weights stay in 16 bits" : "") +
                            (whole && !known.empty() ? "; " : "") + known;
  const std::string changes = worded_changes(answer.question, remedy.plan);
  return wrap(changes, terminal.width - 5, 5) + "\n     " +
         wrap(effect_of(answer, remedy, compares) + moved_to(answer, remedy, changes) +
                  (compares ? time_change(remedy) : "") +
                  (costs.empty() ? "" : "; costs: " + costs) + (compares ? flops_text(remedy) : ""),
              terminal.width - 5, 5) +
         "\n";
}

/// Whether there is a remedy on more GPUs.
bool has_more_gpus(const FitAnswer& answer) {
  return answer.remedies->wider &&
         answer.remedies->wider->plan.world > answer.question.request.plan.world;
}

/// Whether `wider`, which there is, has 16-bit weights in place of quantised ones.
bool drops_quant(const FitAnswer& answer) {
  return answer.question.request.plan.quant && !answer.remedies->wider->plan.quant;
}

/// The heading where no change of the plan itself is enough.
std::string_view none_fits(const FitAnswer& answer) {
  return !answer.remedies->wider || has_more_gpus(answer)
             ? "no change on this many GPUs makes it fit; the closest:"
         : drops_quant(answer) ? "no change makes it fit with quantised weights; the closest:"
                               : "no change makes it fit with this framework; the closest:";
}

/// The section of the remedy on more GPUs, with other weights or with another framework.
std::string wider_lines(const FitAnswer& answer, const Terminal& terminal) {
  if (!answer.remedies->wider) {
    return {};
  }
  const std::string_view where = has_more_gpus(answer) ? "on more GPUs"
                                 : drops_quant(answer) ? "on the same GPUs, with other weights"
                                                       : "on the same GPUs, with another framework";
  return heading(terminal, std::string(where)) + "  1. " +
         remedy_lines(answer, *answer.remedies->wider, terminal, false);
}

}  // namespace

std::string remedies_text(const FitAnswer& answer, const Terminal& terminal) {
  if (!answer.remedies) {
    return {};
  }
  const std::vector<cost::Remedy>& cheapest = answer.remedies->cheapest;
  if (answer.remedies->least_gpus == 0) {
    return heading(terminal, "no change makes it fit: without a single tensor the process takes " +
                                 to_text(answer.estimate.outside_bytes));
  }
  if (cheapest.empty()) {
    return heading(terminal, "no change on this many GPUs would make it fit") +
           least_gpus_line(answer, terminal) + wider_lines(answer, terminal);
  }
  const bool enough = mends(*answer.remedies);
  const bool sufficed = cost::is_yes(answer.estimate.verdict, answer.estimate.chance);
  const std::string head = std::string("changes that make it fit") + (sufficed ? " safely" : "") +
                           " (first those that train the same parameters)";
  std::string text = heading(terminal, enough ? head : std::string(none_fits(answer)));
  for (std::size_t index = 0; index < cheapest.size(); ++index) {
    text +=
        "  " + std::to_string(index + 1) + ". " + remedy_lines(answer, cheapest[index], terminal);
  }
  return text + (enough ? "" : least_gpus_line(answer, terminal)) + wider_lines(answer, terminal);
}

std::string speedups_text(const FitAnswer& answer, const Terminal& terminal) {
  std::string text;
  for (const cost::Speedup& speedup : answer.speedups) {
    text += "  " +
            wrap(worded_changes(answer.question, speedup.plan) + ": " + percent_text(speedup.gain) +
                     " more tokens per second, " + to_text(speedup.margin) + " to spare (" +
                     std::string(cost::describe(speedup.bottleneck)) + ": " +
                     percent_text(speedup.share) + " of the step)",
                 terminal.width - 2, 2) +
            "\n";
  }
  if (text.empty()) {
    const bool nothing = answer.arguments.has("faster") && answer.estimate.time;
    constexpr std::string_view kNothing =
        "no change that fits makes a step faster by 1 % or more: larger micro-batches, other "
        "kernels, less sharding, less offload and less recomputation were tried";
    return nothing ? "  " + wrap(kNothing, terminal.width - 2, 2) + "\n" : "";
  }
  return heading(terminal, "changes that make it faster, each by itself") + text;
}

std::string speedup_hint(const FitAnswer& answer) {
  constexpr double kMuch = 0.25;  // A choice.
  if (!answer.estimate.time || answer.arguments.has("faster")) {
    return {};
  }
  const double share = cost::share_of(*answer.estimate.time, cost::Bottleneck::kCommunication);
  return share < kMuch ? std::string()
                       : "  in " + percent_text(share) +
                             " of the step the GPU waits for communication: try --faster\n";
}

}  // namespace headroom::cli
