#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report/dryrun_answer.h"
#include "cli/report/dryrun_layout.h"

namespace headroom::cli {
namespace {

using check::DryRunVerdict;

/// "-12.0 MiB, -0.1 %": measured against predicted, with the share only of figures that matter.
std::string difference_text(Bytes predicted, Bytes measured, Bytes peak) {
  constexpr std::int64_t kLeastPart = 100;  // A hundredth of the peak.
  const Bytes off = measured - predicted;
  if (off == Bytes{0}) {
    return "the same";
  }
  const std::string sign = off < Bytes{0} ? "-" : "+";
  const std::string text = sign + to_text(off < Bytes{0} ? -off : off);
  if (predicted == Bytes{0} || std::max(predicted, measured).value() < peak.value() / kLeastPart) {
    return text;
  }
  return text + ", " + sign +
         percent_text(static_cast<double>(std::abs(off.value())) /
                      static_cast<double>(predicted.value()));
}

/// The categories that the observer and the prediction tell apart alike; what else is alive is told
/// by the phase of the peak, which need not be the same on both sides.
struct ComparedSums {
  std::array<Bytes, 3> named{};  ///< Parameters, gradients, optimizer states.
  Bytes rest;
};

ComparedSums compared(const std::vector<Bytes>& by_category, Bytes whole) {
  ComparedSums sums{.named = {}, .rest = whole};
  for (std::size_t at = 0; at < sums.named.size(); ++at) {
    sums.named.at(at) = by_category[at];
    sums.rest -= by_category[at];
  }
  return sums;
}

std::string believed_text(const DryRunAnswer& answer) {
  if (answer.judged.verdict == DryRunVerdict::kDoesNotFit) {
    return "Memory ran out before the measured peak was complete: for what a larger GPU would "
           "need, believe the prediction.";
  }
  return "Believe the measured figures, which PyTorch's own allocator counted; the prediction "
         "knows "
         "only the plan.";
}

}  // namespace

std::string dryrun_prediction_text(const DryRunAnswer& answer, const Terminal& terminal) {
  if (!answer.prediction) {
    return answer.unpredicted.empty() ? ""
                                      : heading(terminal, "no prediction") + "  " +
                                            wrap(answer.unpredicted, terminal.width - 2, 2) + "\n";
  }
  const DryRunPrediction& predicted = *answer.prediction;
  const check::DryRunJudgement& judged = answer.judged;
  const TableUnit unit = unit_for_dry_run(std::max(judged.peak_reserved, predicted.peak_reserved));
  const Bytes peak = std::max(judged.peak_allocated, predicted.peak_allocated);
  std::string text =
      heading(terminal, pad_right("prediction", kCategoryColumns + 2) + " predicted    measured");
  const auto line = [&](std::string_view name, Bytes expected, Bytes found) {
    text += "  " + pad_right(name, kCategoryColumns) + dry_run_size(expected, unit) + "  " +
            dry_run_size(found, unit) + "  " + difference_text(expected, found, peak) + "\n";
  };
  line("peak reserved", predicted.peak_reserved, judged.peak_reserved);
  const bool failed = judged.verdict == DryRunVerdict::kDoesNotFit;
  const Bytes whole = failed ? answer.report().oom->allocated : answer.report().peak.allocated;
  line(failed ? "allocated" : "peak allocated", predicted.peak_allocated,
       failed ? whole : judged.peak_allocated);
  const ComparedSums expected = compared(predicted.by_category, predicted.peak_allocated);
  const std::vector<Bytes> sums = bytes_by_category(live_of(answer));
  if (!live_of(answer).empty()) {
    const ComparedSums found = compared(sums, whole);
    for (std::size_t at = 0; at < found.named.size(); ++at) {
      if (found.named.at(at) > Bytes{0} || expected.named.at(at) > Bytes{0}) {
        line(check::dry_run_category(at), expected.named.at(at), found.named.at(at));
      }
    }
    line("everything else", expected.rest, found.rest);
  }
  if (!predicted.of.empty()) {
    text += "  " + wrap("predicted for " + printable(predicted.of), terminal.width - 2, 2) + "\n";
  }
  if (!predicted.moment.empty()) {
    const auto phase = answer.report().peak.phase;
    const std::string found =
        phase && !failed ? ", measured in " + printable(moment_of(answer.report().phases[*phase]))
                         : "";
    text +=
        "  " + wrap("peak predicted in " + predicted.moment + found, terminal.width - 2, 2) + "\n";
  }
  for (const std::string& remark : predicted.remarks) {
    text += "  " + wrap(remark, terminal.width - 2, 2) + "\n";
  }
  return text + "  " + wrap(believed_text(answer), terminal.width - 2, 2) + "\n";
}

}  // namespace headroom::cli
