// The default `FrameworkSearch`, for frameworks that bring no search of their own.

#include <array>
#include <utility>

#include "planner/placement/stage_placement.h"
#include "planner/space/all_axes.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

/// The plan of a cell without recomputation and with recomputation of every layer, if the framework
/// accepts them.
std::vector<ir::ParallelPlan> whole_recomputations(const SpaceQuestion& question,
                                                   const ir::ParallelPlan& plan) {
  std::vector<ir::ParallelPlan> all;
  const SearchAxis axis = whole_recompute_axis();
  for (const ir::Recompute recompute : {ir::Recompute::kNone, ir::Recompute::kFull}) {
    ir::ParallelPlan with = plan;
    with.recompute = recompute;
    if (question.constraints.allows(Axis::kRecompute, axis.get(with)) &&
        ir::check_plan(question.model, with)) {
      all.push_back(std::move(with));
    }
  }
  return all;
}

}  // namespace

std::span<const SearchAxis> FrameworkSearch::axes() const {
  static const std::array<SearchAxis, 2> rows = {micro_batch_axis(), whole_recompute_axis()};
  return rows;
}

bool FrameworkSearch::begin(SpaceWalk& walk) const {
  if (walk.eight_bit_recipe != 0) {
    return false;
  }
  const ir::Runtime& runtime = ir::runtime_of(walk.plan);
  runtime.prepare_for_search(walk.plan);
  if (!walk.asks(Axis::kOptimizer) && walk.plan.optimizer == ir::OptimizerPlan{}) {
    walk.plan.optimizer = runtime.usual_optimizer(walk.plan);
  }
  return true;
}

std::uint64_t FrameworkSearch::choose_first(SpaceWalk& walk) const {
  std::vector<ir::ParallelPlan> all = whole_recomputations(walk.question, walk.plan);
  if (!all.empty()) {
    walk.plan = std::move(all.front());
  }
  return all.size();
}

std::unique_ptr<const Choices> FrameworkSearch::choices(const SpaceQuestion& question,
                                                        const Cell& cell) const {
  return std::make_unique<ListedChoices>(whole_recomputations(question, cell.plan));
}

AxisValues FrameworkSearch::values_of(const SpaceQuestion& /*question*/, const Cell& cell,
                                      Axis axis) const {
  return {value_of(cell.plan, axis)};
}

AxisValues FrameworkSearch::numbers_within_cells(const SpaceQuestion& /*question*/,
                                                 Axis /*axis*/) const {
  return {};
}

std::string FrameworkSearch::requirement(const SpaceQuestion& /*question*/) const {
  return {};
}

std::vector<Alternative> FrameworkSearch::alternatives(const ir::ParallelPlan& plan) const {
  return halves_and_doubles(plan, std::array{Axis::kMicroBatch});
}

Result<std::vector<StagePlacement>> FrameworkSearch::placements(const ir::ModelSpec& /*model*/,
                                                                const ir::ParallelPlan& /*plan*/,
                                                                const cost::DeviceSpec& /*device*/,
                                                                const cost::Machine& /*machine*/,
                                                                Bytes /*capacity*/) const {
  return std::vector<StagePlacement>{};
}

}  // namespace headroom::plan
