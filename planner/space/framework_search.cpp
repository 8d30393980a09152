#include "planner/space/framework_search.h"

#include <algorithm>
#include <array>

#include "model_ir/plan/plan_words.h"
#include "planner/placement/stage_placement.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

std::int64_t whole_recompute_of(const ir::ParallelPlan& plan) {
  return static_cast<std::int64_t>(plan.recompute == ir::Recompute::kNone ? RecomputeChoice::kNone
                                                                          : RecomputeChoice::kFull);
}

/// The plan of a cell without recomputation and with recomputation of every layer, if the framework
/// accepts them.
std::vector<ir::ParallelPlan> whole_recomputations(const SpaceQuestion& question,
                                                   const ir::ParallelPlan& plan) {
  std::vector<ir::ParallelPlan> all;
  for (const ir::Recompute recompute : {ir::Recompute::kNone, ir::Recompute::kFull}) {
    ir::ParallelPlan with = plan;
    with.recompute = recompute;
    if (question.constraints.allows(Axis::kRecompute, whole_recompute_of(with)) &&
        ir::check_plan(question.model, with)) {
      all.push_back(std::move(with));
    }
  }
  return all;
}

std::int64_t position_of(AxisWords words, std::string_view word) {
  const auto found = std::ranges::find(words, word);
  return found == words.end() ? -1 : found - words.begin();
}

std::int64_t optimizer_of(const ir::ParallelPlan& plan) {
  ir::OptimizerPlan optimizer = plan.optimizer;
  if (optimizer.kind == ir::OptimizerKind::kAdamW && optimizer.form == ir::OptimizerForm::kFused &&
      value_of(plan, Axis::kOffload) > 0) {
    optimizer.form = ir::OptimizerForm::kForeach;  // The host's AdamW is called adamw, too.
  }
  const auto words = ir::optimizer_words();
  const auto found = std::ranges::find(words, optimizer, &ir::Word<ir::OptimizerPlan>::value);
  return found == words.end() ? -1 : found - words.begin();
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

std::int64_t FrameworkSearch::precision_of(const ir::ParallelPlan& plan) const {
  return precision_value(plan.precision);
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

const FrameworkSearch& search_of_runtime(std::int64_t runtime) {
  return *framework_searches()[static_cast<std::size_t>(runtime)];
}

std::vector<Axis> all_axes() {
  std::vector<Axis> all = {Axis::kRuntime,
                           Axis::kGpus,
                           Axis::kTensor,
                           Axis::kPipeline,
                           Axis::kSchedule,
                           Axis::kContext,
                           Axis::kExpert,
                           Axis::kExpertTensor,
                           Axis::kChunk,
                           Axis::kPrecision,
                           Axis::kLoss,
                           Axis::kAccountEmbedding,
                           Axis::kAccountLoss,
                           Axis::kOptimizer,
                           Axis::kSequence,
                           Axis::kSequenceParallel,
                           Axis::kAttention,
                           Axis::kMicroBatch,
                           Axis::kReshard,
                           Axis::kRecompute,
                           Axis::kReplicas,
                           Axis::kOffload,
                           Axis::kOptimizerOffload};
  for (const FrameworkSearch* const framework : framework_searches()) {
    for (const SearchAxis& row : framework->axes()) {
      if (!row.several && std::ranges::find(all, row.axis) == all.end()) {
        all.push_back(row.axis);
      }
    }
  }
  std::ranges::sort(all, {}, [](Axis axis) { return axis->order; });
  return all;
}

const SearchAxis* find_axis(const FrameworkSearch& framework, Axis axis) {
  for (const SearchAxis& row : framework.axes()) {
    if (!row.several && row.axis == axis) {
      return &row;
    }
  }
  return nullptr;
}

SearchAxis micro_batch_axis() {
  const auto candidates = [](SpaceWalk& walk) {
    const std::int64_t data =
        walk.plan.world / ir::runtime_of(walk.plan).ranks_per_replica(walk.plan);
    const std::int64_t batch = walk.question.global_batch;
    return batch % data == 0 ? divisors(batch / data) : AxisValues{};
  };
  const auto set = [](SpaceWalk& walk, std::int64_t value) {
    const std::int64_t data =
        walk.plan.world / ir::runtime_of(walk.plan).ranks_per_replica(walk.plan);
    walk.plan.micro_batch = value;
    walk.plan.accumulation = walk.question.global_batch / data / value;
  };
  return {.axis = Axis::kMicroBatch,
          .get = [](const ir::ParallelPlan& plan) { return plan.micro_batch; },
          .candidates = candidates,
          .set = set};
}

SearchAxis whole_recompute_axis() {
  return {.axis = Axis::kRecompute,
          .get = whole_recompute_of,
          .rule = [](const SpaceQuestion& /*question*/) -> std::string { return "none or full"; }};
}

std::string gpus_text(const SpaceQuestion& question) {
  const AxisValues& given = question.constraints.of(Axis::kGpus);
  return std::to_string(given.empty() ? question.base.world : given.back());
}

std::string sequence_text(const SpaceQuestion& question) {
  const AxisValues& given = question.constraints.of(Axis::kSequence);
  return std::to_string(given.empty() ? question.base.sequence : given.front());
}

std::string layers_text(const SpaceQuestion& question) {
  return std::to_string(question.model.layers.size());
}

AxisValues among(const Constraints& allowed, Axis axis, AxisValues candidates) {
  if (!allowed.of(axis).empty()) {
    std::erase_if(candidates, [&](std::int64_t value) { return !allowed.allows(axis, value); });
  }
  return candidates;
}

std::vector<Alternative> halves_and_doubles(const ir::ParallelPlan& plan,
                                            std::span<const Axis> axes) {
  std::vector<Alternative> all;
  for (const Axis axis : axes) {
    const std::int64_t value = value_of(plan, axis);
    if (value > 1) {
      all.push_back({axis, value / 2});
    }
    all.push_back({axis, value * 2});
  }
  return all;
}

std::int64_t value_of(const ir::ParallelPlan& plan, Axis axis) {
  if (axis == Axis::kRuntime) {
    return position_of(words_of_axis(axis), plan.runtime);
  }
  if (axis == Axis::kGpus) {
    return plan.world;
  }
  if (axis == Axis::kSequence) {
    return plan.sequence;
  }
  if (axis == Axis::kOptimizer) {
    return optimizer_of(plan);
  }
  const FrameworkSearch& framework = search_of(plan);
  if (axis == Axis::kPrecision) {
    return framework.precision_of(plan);
  }
  const SearchAxis* const own = find_axis(framework, axis);
  return own == nullptr ? axis->absent : own->get(plan);
}

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  std::vector<std::int64_t> above;
  for (std::int64_t i = 1; i * i <= number; ++i) {
    if (number % i == 0) {
      found.push_back(i);
      if (i * i != number) {
        above.push_back(number / i);
      }
    }
  }
  found.insert(found.end(), above.rbegin(), above.rend());
  return found;
}

}  // namespace headroom::plan
