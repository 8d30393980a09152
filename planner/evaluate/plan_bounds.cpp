#include "planner/evaluate/plan_bounds.h"

#include <algorithm>
#include <variant>

#include "costmodel/estimate.h"
#include "costmodel/layer_bound.h"
#include "costmodel/memory_floor.h"
#include "planner/evaluate/live_bytes.h"
#include "planner/evaluate/plan_figures.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

bool computes(const ir::WorkShape& shape) {
  return std::holds_alternative<ir::GemmShape>(shape) ||
         std::holds_alternative<ir::AttentionShape>(shape) ||
         std::holds_alternative<ir::TrafficShape>(shape);
}

}  // namespace

Seconds AloneBounds::least_step(const ir::ParallelPlan& plan) {
  return kFloorRounding * static_cast<double>(plan.workload.accumulation) * alone(plan).computing;
}

Bytes AloneBounds::floor(const ir::ParallelPlan& plan) {
  const Bytes kept =
      Bytes{alone(plan).kept} + ir::runtime_of(plan).gathered_after_forward(model_, plan);
  if (plan.workload.steps < 2) {
    return kept;
  }
  return cost::memory_floor(model_, plan, cost::HeldAt::kForward) + kept;
}

AloneBounds::Alone AloneBounds::alone(const ir::ParallelPlan& plan) {
  const std::optional<ir::ParallelPlan> one = ir::runtime_of(plan).one_rank_alone(plan);
  if (!one) {
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(alone_, *one, &decltype(alone_)::value_type::first);
    if (found != alone_.end()) {
      return found->second;
    }
  }
  const Alone made = extrapolated(*one);
  const std::lock_guard lock(mutex_);
  return alone_.emplace_back(*one, made).second;
}

AloneBounds::Alone AloneBounds::extrapolated(const ir::ParallelPlan& one) const {
  const cost::LayerStretch stretch =
      cost::best_stretch(model_.layers, static_cast<std::size_t>(one.recompute_every));
  // Three periods are kept, so that one of them is neither the first nor the last.
  const std::size_t removed = stretch.removable(3);
  if (removed == 0 || one.recompute_first > 0) {
    return lowered_alone(model_, one);
  }
  const Alone three = lowered_alone(cost::without_layers(model_, stretch, removed), one);
  const Alone four =
      lowered_alone(cost::without_layers(model_, stretch, removed - stretch.period), one);
  if (three.kept == 0 || four.kept < three.kept) {
    return {};  // One of the two could not be lowered.
  }
  const auto periods = static_cast<std::int64_t>(removed / stretch.period);
  return {.computing =
              three.computing + static_cast<double>(periods) * (four.computing - three.computing),
          .kept = three.kept + periods * (four.kept - three.kept)};
}

AloneBounds::Alone AloneBounds::lowered_alone(const ir::ModelSpec& model,
                                              const ir::ParallelPlan& one) const {
  const Result<ir::RankProgram> program = cost::lower_replayed(model, one, device_);
  Alone result;
  if (!program) {
    return result;
  }
  const ir::DeviceWork& work = program->work;
  const cost::PriceList prices = cost::prices_on(machine_, one);
  std::vector<Seconds> durations;
  for (const ir::WorkShape& shape : work.shapes) {
    durations.push_back(computes(shape) ? prices.time_of(shape) : Seconds{});
  }
  const std::vector<std::int64_t> live = live_curve(*program, one.allocator);
  for (const ir::Phase& phase : program->phases) {
    const bool forward = phase.name.kind == ir::PhaseKind::kForward;
    if (!forward && phase.name.kind != ir::PhaseKind::kBackward) {
      continue;
    }
    for (std::size_t i = phase.first_item; i < phase.end_item; ++i) {
      const ir::WorkItem& item = work.items[i];
      if (item.kind == ir::WorkItem::Kind::kRun && item.stream == 0) {
        result.computing += durations[item.index];
      }
    }
    if (forward && phase.end > phase.begin && phase.begin > 0) {
      result.kept = live[phase.end - 1] - live[phase.begin - 1];
    }
  }
  return result;
}

}  // namespace headroom::plan
