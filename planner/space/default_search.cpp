// The default `FrameworkSearch`, for frameworks that bring no search of their own.

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "model_ir/base/units.h"
#include "model_ir/plan/plan_words.h"
#include "planner/placement/stage_placement.h"
#include "planner/space/all_axes.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

/// The number of layers of each stack that are recomputed if every `every`-th one is.
std::array<std::int64_t, 2> recomputed_layers(const ir::ModelSpec& model, std::int64_t every) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t encoder = model.encoder ? model.encoder->layers : 0;
  return {ceil_div(layers, every), ceil_div(encoder, every)};
}

/// The periods of recomputed layers: each one that gives another number of layers, or each one that
/// the user asks for.
AxisValues recompute_periods(const SpaceQuestion& question, bool has_axis) {
  if (!has_axis) {
    return {1};
  }
  const Constraints& allowed = question.constraints;
  const bool asked = !allowed.of(Axis::kRecomputeEvery).empty();
  const std::int64_t longest =
      std::max(static_cast<std::int64_t>(question.model.layers.size()),
               question.model.encoder ? question.model.encoder->layers : std::int64_t{0});
  AxisValues periods;
  std::array<std::int64_t, 2> before{};
  for (std::int64_t every = 1; every <= longest; ++every) {
    const std::array<std::int64_t, 2> layers = recomputed_layers(question.model, every);
    if (asked ? allowed.allows(Axis::kRecomputeEvery, every) : layers != before) {
      periods.push_back(every);
    }
    before = layers;
  }
  return periods;
}

}  // namespace

std::vector<ir::ParallelPlan> whole_recomputations(const FrameworkSearch& framework,
                                                   const SpaceQuestion& question,
                                                   const ir::ParallelPlan& plan) {
  std::vector<ir::ParallelPlan> all;
  const SearchAxis axis = whole_recompute_axis();
  const auto add = [&](ir::Recompute recompute, std::int64_t every) {
    ir::ParallelPlan with = plan;
    with.recompute = recompute;
    with.recompute_every = every;
    if (question.constraints.allows(Axis::kRecompute, axis.get(with)) &&
        question.constraints.allows(Axis::kRecomputeEvery, every) &&
        ir::check_plan(question.model, with)) {
      all.push_back(std::move(with));
    }
  };
  add(ir::Recompute::kNone, 1);
  const bool has_axis = find_axis(framework, Axis::kRecomputeEvery) != nullptr;
  for (const std::int64_t every : recompute_periods(question, has_axis)) {
    add(ir::Recompute::kFull, every);
  }
  return all;
}

std::span<const SearchAxis> FrameworkSearch::axes() const {
  static const std::array<SearchAxis, 2> rows = {micro_batch_axis(), whole_recompute_axis()};
  return rows;
}

bool FrameworkSearch::begin(SpaceWalk& walk) const {
  if (!take_precision(walk)) {
    return false;
  }
  const ir::Runtime& runtime = ir::runtime_of(walk.plan);
  runtime.prepare_for_search(walk.plan);
  take_optimizer(walk);
  return true;
}

std::int64_t FrameworkSearch::read(Axis axis, std::int64_t value) const {
  if (axis != Axis::kPrecision || eight_bit_recipe(value) != 0) {
    return canonical(axis, value);
  }
  const ir::Precision asked = ir::precision_words()[static_cast<std::size_t>(value)].value;
  const ir::Runtime* const runtime = ir::find_runtime(runtime_);
  return precision_value(runtime == nullptr ? asked : read_precision(*runtime, asked));
}

std::uint64_t FrameworkSearch::choose_first(SpaceWalk& walk) const {
  std::vector<ir::ParallelPlan> all = whole_recomputations(*this, walk.question, walk.plan);
  if (!all.empty()) {
    walk.plan = std::move(all.front());
  }
  return all.size();
}

std::unique_ptr<const Choices> FrameworkSearch::choices(const SpaceQuestion& question,
                                                        const Cell& cell) const {
  return std::make_unique<ListedChoices>(whole_recomputations(*this, question, cell.plan));
}

AxisValues FrameworkSearch::values_of(const SpaceQuestion& question, const Cell& cell,
                                      Axis axis) const {
  return axis == Axis::kRecomputeEvery ? listed_values(question, cell, axis)
                                       : AxisValues{value_of(cell.plan, axis)};
}

AxisValues FrameworkSearch::listed_values(const SpaceQuestion& question, const Cell& cell,
                                          Axis axis) const {
  std::set<std::int64_t> values;
  const std::unique_ptr<const Choices> all = choices(question, cell);
  for (std::uint64_t index = 0; index < all->size(); ++index) {
    values.insert(value_of(all->plan_at(index), axis));
  }
  return {values.begin(), values.end()};
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

std::vector<OfferedChange> FrameworkSearch::offered_changes(
    const SpaceQuestion& /*question*/, const ir::ParallelPlan& /*plan*/) const {
  return {};
}

Result<std::vector<StagePlacement>> FrameworkSearch::placements(const ir::ModelSpec& /*model*/,
                                                                const ir::ParallelPlan& /*plan*/,
                                                                const cost::DeviceSpec& /*device*/,
                                                                const cost::Machine& /*machine*/,
                                                                Bytes /*capacity*/) const {
  return std::vector<StagePlacement>{};
}

}  // namespace headroom::plan
