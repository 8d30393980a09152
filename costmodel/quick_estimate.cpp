#include "costmodel/quick_estimate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "costmodel/layer_bound.h"
#include "costmodel/outside_memory.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

/// More than any device has, so that the short models never run out of memory.
constexpr Bytes kUnlimited{std::int64_t{1} << 60};

/// Periods of layers that the two short models keep.
struct Kept {
  std::size_t shorter = 0;
  std::size_t longer = 0;
};
/// Two periods are too few: the first and the last layer of a step have neighbours of another kind.
constexpr Kept kEven{.shorter = 3, .longer = 4};
/// Where buckets fill up over several layers, the line must be drawn over several.
constexpr Kept kUneven{.shorter = 6, .longer = 12};

/// The straight line through two models that differ by `between` layers, continued by `more`.
struct Line {
  std::int64_t between = 1;
  std::int64_t more = 0;
  std::int64_t kept = 1;  ///< Layers of the longer one.

  [[nodiscard]] double ratio() const {
    return static_cast<double>(more) / static_cast<double>(between);
  }
  [[nodiscard]] Bytes at(Bytes shorter, Bytes longer) const {
    return std::max(longer + Bytes{(more * (longer - shorter)).value() / between}, Bytes{0});
  }
  [[nodiscard]] double at(double shorter, double longer) const {
    return longer + ratio() * (longer - shorter);
  }
  [[nodiscard]] Seconds at(Seconds shorter, Seconds longer) const {
    return Seconds{at(shorter.value(), longer.value())};
  }
};

/// What the allocator reserves beyond what tensors take. It depends on how requests happen to fill
/// segments, so its line is kept between nothing and what grows as fast as the layers.
Bytes reserved_at(const Line& line, const PhaseMemory& shorter, const PhaseMemory& longer,
                  Bytes allocated) {
  const Bytes before = shorter.peak_reserved - shorter.peak_allocated;
  const Bytes after = longer.peak_reserved - longer.peak_allocated;
  const Bytes most = after + Bytes{(line.more * after).value() / line.kept};
  return allocated + std::clamp(line.at(before, after), Bytes{0}, most);
}

void continue_phase(const Line& line, const PhaseMemory& shorter, PhaseMemory& phase) {
  const PhaseMemory longer = phase;
  for (Bytes PhaseMemory::*const figure :
       {&PhaseMemory::allocated_before, &PhaseMemory::allocated_after, &PhaseMemory::peak_allocated,
        &PhaseMemory::reserved_after, &PhaseMemory::peak_reserved, &PhaseMemory::requested_after,
        &PhaseMemory::peak_requested}) {
    phase.*figure = line.at(shorter.*figure, phase.*figure);
  }
  for (std::size_t role = 0; role < phase.after.size(); ++role) {
    phase.after.at(role) = line.at(shorter.after.at(role), phase.after.at(role));
    phase.at_peak.at(role) = line.at(shorter.at_peak.at(role), phase.at_peak.at(role));
  }
  phase.peak_allocated = {};  // The sum of the roles, each of which was rounded.
  for (const Bytes role : phase.at_peak) {
    phase.peak_allocated += role;
  }
  phase.peak_reserved = reserved_at(line, shorter, longer, phase.peak_allocated);
}

void continue_time(const Line& line, const StepTime& shorter, StepTime& time) {
  time.total = line.at(shorter.total, time.total);
  PartTimes parts;
  parts.add(time.parts, 1 + line.ratio());
  parts.add(shorter.parts, -line.ratio());
  time.parts = parts;
  time.model_flops = line.at(shorter.model_flops, time.model_flops);
  time.hardware_flops = line.at(shorter.hardware_flops, time.hardware_flops);
  time.pipeline.reset();  // Its passes are those of the short model.
}

HostMemory continued(const Line& line, const HostMemory& shorter, HostMemory host) {
  if (shorter.terms.size() != host.terms.size()) {
    return host;
  }
  for (std::size_t term = 0; term < host.terms.size(); ++term) {
    host.terms[term].bytes = line.at(shorter.terms[term].bytes, host.terms[term].bytes);
  }
  for (Bytes HostMemory::*const figure :
       {&HostMemory::rank_bytes, &HostMemory::bytes, &HostMemory::pinned, &HostMemory::nvme}) {
    host.*figure = line.at(shorter.*figure, host.*figure);
  }
  return host;
}

/// Names the peak of the continued phases. Layers after the stretch keep their distance to the end.
void name_continued_peak(StepEstimate& estimate, std::int32_t begin, std::int32_t removed) {
  const auto& phases = estimate.timeline.phases;
  const auto peak = std::ranges::max_element(phases, {}, &PhaseMemory::peak_allocated);
  estimate.timeline.peak_phase = static_cast<std::size_t>(peak - phases.begin());
  estimate.peak_phase = peak->name;
  estimate.peak_by_role = peak->at_peak;
  estimate.peak_site = site_of(estimate.program, peak->peak_event);
  if (estimate.peak_site.layer > begin) {
    estimate.peak_site.layer += removed;
  }
  estimate.peak_moment = moment_text(peak->name, estimate.peak_site);
  estimate.peak_allocated = peak->peak_allocated;
  estimate.peak_reserved =
      std::ranges::max_element(phases, {}, &PhaseMemory::peak_reserved)->peak_reserved;
}

void judge_continued(StepEstimate& estimate, Bytes total, std::vector<OutsideTerm> outside) {
  estimate.device_total = total;
  estimate.outside = std::move(outside);
  estimate.outside_bytes = total_of(estimate.outside);
  estimate.capacity = std::max(total - estimate.outside_bytes, Bytes{0});
  estimate.margin = estimate.capacity - estimate.peak_reserved;
  const double wanted = kTightShare * static_cast<double>(total.value());
  estimate.device_verdict = Verdict::kFits;
  if (estimate.margin < Bytes{0}) {
    estimate.device_verdict = Verdict::kDoesNotFit;
  } else if (static_cast<double>(estimate.margin.value()) < wanted) {
    estimate.device_verdict = Verdict::kTight;
  }
}

}  // namespace

std::optional<Result<StepEstimate>> quick_estimate(const ir::ModelSpec& model,
                                                   const ir::ParallelPlan& plan,
                                                   const DeviceSpec& device, Bytes budget,
                                                   const Machine* machine) {
  if (Status status = ir::check_plan(model, plan); !status) {
    return Result<StepEstimate>(std::move(status).error());
  }
  const ir::Runtime& runtime = ir::runtime_of(plan);
  if (Status status = runtime.check_device(plan, device.traits); !status) {
    return Result<StepEstimate>(std::move(status).error());
  }
  if (model.encoder || plan.recompute_first > 0) {
    return std::nullopt;
  }
  const std::size_t every =
      plan.recompute == ir::Recompute::kNone ? 1 : static_cast<std::size_t>(plan.recompute_every);
  LayerStretch stretch = best_stretch(model.layers, every);
  stretch.period *=
      static_cast<std::size_t>(std::max<std::int64_t>(1, runtime.pipeline(plan).stages));
  const Kept kept = runtime.grows_by_layers(plan) ? kEven : kUneven;
  const std::size_t removed = stretch.removable(kept.longer);
  if (2 * removed < model.layers.size()) {
    return std::nullopt;  // The replay is as quick.
  }
  const std::size_t between = (kept.longer - kept.shorter) * stretch.period;
  const Result<StepEstimate> shorter = estimate(without_layers(model, stretch, removed + between),
                                                plan, device, kUnlimited, machine);
  Result<StepEstimate> longer =
      estimate(without_layers(model, stretch, removed), plan, device, kUnlimited, machine);
  if (!shorter || !longer || shorter->timeline.phases.size() != longer->timeline.phases.size() ||
      longer->timeline.phases.empty()) {
    return std::nullopt;
  }
  StepEstimate continued_one = std::move(longer).value();
  const Line line{.between = static_cast<std::int64_t>(between),
                  .more = static_cast<std::int64_t>(removed),
                  .kept = static_cast<std::int64_t>(kept.longer * stretch.period)};
  for (std::size_t at = 0; at < continued_one.timeline.phases.size(); ++at) {
    continue_phase(line, shorter->timeline.phases[at], continued_one.timeline.phases[at]);
  }
  if (continued_one.time && shorter->time) {
    continue_time(line, *shorter->time, *continued_one.time);
  }
  name_continued_peak(continued_one, static_cast<std::int32_t>(stretch.begin),
                      static_cast<std::int32_t>(removed));
  judge_continued(continued_one, budget > Bytes{0} ? budget : device.total,
                  outside_terms(model, plan, device));
  judge_host(continued_one, continued(line, shorter->host, std::move(continued_one.host)));
  return Result<StepEstimate>(std::move(continued_one));
}

}  // namespace headroom::cost
