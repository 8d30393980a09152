#include "validators/dryrun/verdict.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "costmodel/estimate.h"

namespace headroom::check {
namespace {

constexpr std::array<std::string_view, 4> kDryRunVerdicts = {"fits", "tight", "does not fit",
                                                             "unknown"};

/// Whether the program came as far as it was to come.
bool is_whole(const DryRunEnd& end, const DryRunReport& report) {
  return report.stopped == DryRunStop::kSteps ||
         (report.stopped == DryRunStop::kEnd && end.exit_code == 0 && end.signal == 0);
}

}  // namespace

std::string_view name_of(DryRunVerdict verdict) {
  return kDryRunVerdicts.at(static_cast<std::size_t>(verdict));
}

Bytes missing_bytes(Bytes requested, Bytes free) {
  return requested > free ? requested - free : requested;
}

DryRunJudgement judge_dry_run(const DryRunDevice& device, const DryRunEnd& end,
                              const DryRunReport& report) {
  DryRunJudgement judged{.verdict = DryRunVerdict::kUnknown,
                         .capacity = device.total - device.outside,
                         .peak_allocated = report.peak.allocated,
                         .peak_reserved = report.peak.reserved,
                         .margin = {},
                         .retries = 0};
  for (const DryRunPhase& phase : report.phases) {
    judged.peak_allocated = std::max(judged.peak_allocated, phase.peak_allocated);
    judged.peak_reserved = std::max(judged.peak_reserved, phase.peak_reserved);
    judged.retries = std::max(judged.retries, phase.retries);  // counted since the start
  }
  // What other libraries allocate beside PyTorch shows in the device's own count alone.
  judged.margin =
      judged.capacity - std::max(judged.peak_reserved, report.peak.device - device.outside);
  const bool whole = is_whole(end, report);
  if (report.oom && !whole) {
    const DryRunOom& oom = *report.oom;
    judged.verdict = DryRunVerdict::kDoesNotFit;
    judged.margin = -missing_bytes(oom.requested, oom.free);
  } else if (whole) {
    const double least = cost::kTightShare * static_cast<double>(device.total.value());
    const bool tight = report.oom.has_value() || judged.retries > 0 ||
                       static_cast<double>(judged.margin.value()) < least;
    judged.verdict = tight ? DryRunVerdict::kTight : DryRunVerdict::kFits;
  }
  return judged;
}

bool is_before_steps(const DryRunPhase& phase) {
  return phase.step == 0 || phase.name == "load";
}

std::string moment_of(const DryRunPhase& phase) {
  if (is_before_steps(phase)) {
    return phase.name;
  }
  return "step " + std::to_string(phase.step) + ", " + phase.name +
         (phase.micro_batch > 1 ? ", micro-batch " + std::to_string(phase.micro_batch) : "");
}

}  // namespace headroom::check
