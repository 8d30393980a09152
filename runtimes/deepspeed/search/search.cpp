#include "runtimes/deepspeed/search/search.h"

#include <cmath>
#include <memory>

#include "planner/search/evaluator.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/search/zero_bounds.h"
#include "runtimes/registry.h"
#include "runtimes/transformers/search/search.h"

namespace headroom::plan {
namespace {

using ir::OffloadDevice;
using ir::ParallelPlan;
using ir::ZeroPlan;

constexpr auto kNone = static_cast<std::int64_t>(OffloadChoice::kNone);
constexpr auto kOptimizer = static_cast<std::int64_t>(OffloadChoice::kOptimizer);
constexpr auto kAll = static_cast<std::int64_t>(OffloadChoice::kAll);

std::int64_t stage_of(const ParallelPlan& plan) {
  return has_zero(plan) ? zero_of(plan).stage : 0;
}

/// At stage 3, only causal models are modelled.
AxisValues stages(SpaceWalk& walk) {
  return walk.question.model.architecture == ir::Architecture::kCausalLm ? AxisValues{0, 1, 2, 3}
                                                                         : AxisValues{0, 1, 2};
}

/// Whether a stage that nobody named would only run more code: one GPU has nothing to shard. Where
/// all parameters are trained, stages 1 and 2 are searched all the same, since they take less
/// memory than stage 0.
bool shards_nothing(const SpaceWalk& walk) {
  const std::int64_t stage = stage_of(walk.plan);
  return walk.plan.world == 1 && (stage == 3 || (stage > 0 && walk.plan.lora)) &&
         !walk.asks(deepspeed_axes::kZero);
}

AxisValues offloads(SpaceWalk& walk) {
  const std::int64_t stage = stage_of(walk.plan);
  if (shards_nothing(walk)) {
    return stage == 3 ? AxisValues{kOptimizer, kAll} : AxisValues{kOptimizer};
  }
  return stage == 0   ? AxisValues{kNone}
         : stage == 3 ? AxisValues{kNone, kOptimizer, kAll}
                      : AxisValues{kNone, kOptimizer};
}

std::int64_t offload_of(const ParallelPlan& plan) {
  if (!has_zero(plan) || zero_of(plan).offload_optimizer == OffloadDevice::kNone) {
    return kNone;
  }
  return zero_of(plan).offload_param == OffloadDevice::kNone ? kOptimizer : kAll;
}

/// The share of the optimizer on the host: all of it, or at stage 3 a fraction if the user asks for
/// one.
AxisValues shares(SpaceWalk& walk) {
  const bool offloaded = offload_of(walk.plan) != kNone;
  const bool parts = offloaded && stage_of(walk.plan) == 3 && walk.asks(Axis::kOptimizerOffload);
  return parts ? AxisValues{1, 2, 3, kOffloadSteps} : AxisValues{offloaded ? kOffloadSteps : 0};
}

void set_share(SpaceWalk& walk, std::int64_t share) {
  edit_zero(walk.plan).offload_ratio =
      share > 0 ? static_cast<double>(share) / static_cast<double>(kOffloadSteps) : 1;
  walk.plan.optimizer = walk.optimizer;
  if (walk.optimizer == ir::OptimizerPlan{}) {
    const ir::Runtime& runtime = ir::runtime_of(walk.plan);
    walk.plan.optimizer = walk.asks(Axis::kOptimizer) ? runtime.usual_optimizer(walk.plan)
                                                      : runtime.searched_optimizer(walk.plan);
  }
}

std::vector<SearchAxis> zero_axes() {
  std::vector<SearchAxis> rows = {
      {.axis = deepspeed_axes::kZero,
       .get = stage_of,
       .rule = [](const SpaceQuestion& /*question*/) -> std::string {
         return "a stage from 0 to 3 (stage 3 for decoder models only)";
       },
       .candidates = stages,
       .set =
           [](SpaceWalk& walk, std::int64_t stage) {
             edit_zero(walk.plan) = ZeroPlan{};
             edit_zero(walk.plan).stage = static_cast<int>(stage);
           }},
      {.axis = Axis::kOffload,
       .get = offload_of,
       .help = "none, optimizer, all",
       .rule = [](const SpaceQuestion& /*question*/) -> std::string {
         return "none, optimizer (stages 1 to 3) or all (stage 3)";
       },
       .candidates = offloads,
       .set =
           [](SpaceWalk& walk, std::int64_t offload) {
             ZeroPlan& zero = edit_zero(walk.plan);
             zero.offload_optimizer = offload != kNone ? OffloadDevice::kCpu : OffloadDevice::kNone;
             zero.offload_param = offload == kAll ? OffloadDevice::kCpu : OffloadDevice::kNone;
           }},
      {.axis = Axis::kOptimizerOffload,
       .get = [](const ParallelPlan& plan) -> std::int64_t {
         return offload_of(plan) == kNone
                    ? 0
                    : std::lround(zero_of(plan).offload_ratio * static_cast<double>(kOffloadSteps));
       },
       .help = "0, 1, at stage 3 also 0.25, 0.5, 0.75",
       .rule = [](const SpaceQuestion& /*question*/) -> std::string {
         return "0, or with the optimizer on the host 1, at stage 3 0.25, 0.5 or 0.75 as well";
       },
       .candidates = shares,
       .set = set_share}};
  for (const SearchAxis& row : transformers_axes()) {
    rows.push_back(row);
  }
  return rows;
}

class DeepSpeedSearch final : public FrameworkSearch {
 public:
  DeepSpeedSearch() : FrameworkSearch("deepspeed") {}

  [[nodiscard]] bool only_if_named() const override { return false; }

  [[nodiscard]] std::span<const SearchAxis> axes() const override {
    static const std::vector<SearchAxis> rows = zero_axes();
    return rows;
  }

  [[nodiscard]] std::vector<OfferedChange> offered_changes(
      const SpaceQuestion& /*question*/, const ir::ParallelPlan& plan) const override {
    return offered_liger(plan);
  }

  [[nodiscard]] bool begin(SpaceWalk& walk) const override { return take_precision(walk); }

  [[nodiscard]] std::unique_ptr<PlanBounds> bounds(const SearchInputs& inputs) const override {
    return std::make_unique<ZeroBounds>(inputs.question.space.model, inputs.device,
                                        inputs.question.machine,
                                        inputs.records.of<AloneBounds::Samples>());
  }
};

}  // namespace

const FrameworkSearch& deepspeed_search() {
  static const DeepSpeedSearch search;
  return search;
}

}  // namespace headroom::plan
