#include "runtimes/deepspeed/search/zero_bounds.h"

#include <algorithm>
#include <cstdint>

#include "costmodel/layer_bound.h"
#include "planner/search/evaluator.h"
#include "runtimes/deepspeed/plan.h"

namespace headroom::plan {
namespace {

/// The share of the line through the host's steps of two short programs that counts: parts are
/// rounded up to whole elements on every rank, by far less than this.
constexpr double kLeastShare = 0.99;

bool is_stepped_on_host(const ir::ParallelPlan& plan) {
  if (!ir::has_zero(plan)) {
    return false;
  }
  const ir::ZeroPlan& zero = ir::zero_of(plan);
  return zero.offload_optimizer == ir::OffloadDevice::kCpu && zero.offload_ratio == 1;
}

/// The number of layers that `plan` recomputes.
std::int64_t recomputed_layer_count(std::int64_t layers, const ir::ParallelPlan& plan) {
  std::int64_t again = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    again += ir::recomputes_layer(plan, layer) ? 1 : 0;
  }
  return again;
}

/// The time in which the host steps the optimizer; nothing if the model is too short for a line.
///
/// Errors:  those of `cost::lower_replayed`.
Result<std::optional<Seconds>> host_step_line(const ir::ModelSpec& model,
                                              const ir::ParallelPlan& plan, LoweredPlans& plans) {
  constexpr std::size_t kPeriods = 3;  // `AloneBounds` has as many: programs are shared.
  const cost::LayerStretch stretch = cost::best_stretch(model.layers, 1);
  const std::size_t removed = stretch.removable(kPeriods);
  if (2 * removed < model.layers.size() || model.encoder) {
    return std::optional<Seconds>();
  }
  ir::ParallelPlan one = plan;  // Neither layers nor micro-batches change what the host steps.
  one.recompute = ir::Recompute::kNone;
  one.recompute_every = 1;
  one.recompute_first = 0;
  one.workload.accumulation = 1;
  one.workload.micro_batch = 1;
  const Result<LoweredPlan> three =
      plans.of_fewer_layers(cost::without_layers(model, stretch, removed), one);
  const Result<LoweredPlan> four =
      plans.of_fewer_layers(cost::without_layers(model, stretch, removed - stretch.period), one);
  if (!three || !four) {
    const Error& fault = three ? four.error() : three.error();
    return is_refusal(fault) ? Result<std::optional<Seconds>>(std::optional<Seconds>()) : fault;
  }
  const auto periods = static_cast<double>(removed / stretch.period);
  return std::optional(kLeastShare *
                       (three->host_step + periods * (four->host_step - three->host_step)));
}

}  // namespace

Result<std::optional<SampledBound>> ZeroBounds::sampled(const ir::ParallelPlan& plan,
                                                        LoweredPlans& plans) {
  Result<std::optional<SampledBound>> own = AloneBounds::sampled(plan, plans);
  if (!own || *own || !is_stepped_on_host(plan)) {
    return own;
  }
  const Result<std::optional<Seconds>> host = host_step_line(model(), plan, plans);
  if (!host) {
    return host.error();
  }
  return *host ? std::optional(SampledBound{.peak = {}, .step = least_step(plan) + **host})
               : std::nullopt;
}

Bytes ZeroBounds::least_peak(const ir::ParallelPlan& plan, const ir::ParallelPlan& other,
                             const LoweredPlan& figures) {
  const cost::LayerStretch stretch = cost::best_stretch(model().layers, 1);
  const bool equal = stretch.period == 1 && stretch.length == model().layers.size();
  const int stage = ir::has_zero(plan) ? ir::zero_of(plan).stage : 0;
  if (!equal || plan.lora || stage == 0 || stage == 3) {
    return Bytes{0};
  }
  const auto layers = static_cast<std::int64_t>(model().layers.size());
  const std::int64_t before = recomputed_layer_count(layers, other);
  const std::int64_t more = recomputed_layer_count(layers, plan) - before + 1;
  if (before >= layers) {
    return Bytes{0};
  }
  return figures.peak - Bytes{ceil_div(figures.kept.value() * more, layers - before)};
}

}  // namespace headroom::plan
