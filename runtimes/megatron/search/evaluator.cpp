#include "runtimes/megatron/search/evaluator.h"

#include <algorithm>
#include <utility>

#include "costmodel/expert_load.h"
#include "costmodel/memory_floor.h"
#include "planner/search/evaluator.h"
#include "planner/space/framework_search.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/block_floor.h"
#include "runtimes/megatron/search/cell_plans.h"
#include "runtimes/megatron/search/sampled_blocks.h"

namespace headroom::plan {
namespace {

/// `plan` with the allowed switches that leave the fewest optimizer states on the device.
ir::ParallelPlan least_states(const Constraints& allowed, const ir::ParallelPlan& plan) {
  ir::ParallelPlan lean = plan;
  const AxisValues& offload = allowed.of(Axis::kOptimizerOffload);
  const bool hybrid = !offload.empty() && offload.back() > 0 && !megatron_of(lean).fp8_parameters;
  edit_megatron(lean).distributed_optimizer = true;
  edit_megatron(lean).precision_aware = hybrid;
  edit_megatron(lean).optimizer_offload = hybrid ? 1 : 0;
  return lean;
}

/// A plan with a higher peak is useless: either it does not fit, or the lowest peak is sought and a
/// lower one is known.
Bytes ceiling_of(const SearchState& state, const BoundedCell& cell, const Visit& visit) {
  const Bytes capacity = capacity_of(state.question, cell.cell.plan);
  if (state.question.objective != Objective::kMemory || !visit.incumbent || visit.incumbent->late) {
    return capacity;
  }
  return std::min(capacity, Bytes{static_cast<std::int64_t>(visit.incumbent->first)});
}

/// One visit of a cell by the search.
class CellVisit {
 public:
  CellVisit(const SearchState& state, PlanMemory& memory, const BoundedCell& cell,
            const Visit& visit, const BlockTimes& blocks)
      : question_(state.question),
        cell_(cell),
        visit_(visit),
        ceiling_(ceiling_of(state, cell, visit)),
        plans_(state, memory, cell, blocks) {}

  Result<CellAnswer> operator()() {
    for (const Timed& timed : plans_in_order()) {
      const bool found =
          answer_.best && (stops_at_first(question_) || (question_.any && !answer_.worth.late));
      if (found || question_.stop.asked() ||
          (visit_.limit && worth_of_time(timed) > *visit_.limit)) {
        answer_.next =
            Next{.seconds = timed.seconds, .bound = worth_of_time(timed), .after = last_};
        break;
      }
      last_ = timed;
      if (question_.pruning.memory_floor && plans_.is_above(timed.index, ceiling())) {
        continue;
      }
      if (lacks_host(timed)) {
        continue;
      }
      if (Status status = evaluate(timed); !status) {
        return std::move(status).error();
      }
    }
    return std::move(answer_);
  }

  /// Evaluates only the plan that keeps the least in the steady state.
  Result<CellAnswer> leanest() {
    const MegatronChoices& choices = plans_.choices();
    const std::uint64_t count = choices.switches.size();
    std::uint64_t index = 0;
    for (std::uint64_t i = 0; i < choices.recomputations.size(); ++i) {
      const ir::MegatronPlan& megatron = megatron_of(choices.recomputations[i]);
      const bool whole = megatron.recompute == ir::MegatronRecompute::kFullUniform &&
                         megatron.recompute_layers == 1;
      index = whole ? i * count : index;
    }
    const std::vector<Timed> listed = plans_.listed();
    const auto one = std::ranges::find(listed, index, &Timed::index);
    if (one == listed.end() || plans_.is_above(index, ceiling())) {
      return std::move(answer_);
    }
    const Status status = evaluate(*one);
    return status ? Result<CellAnswer>(std::move(answer_)) : Result<CellAnswer>(status.error());
  }

 private:
  [[nodiscard]] Worth worth_of_time(const Timed& timed) const {
    Worth worth = worth_of(question_, cell_.cell.plan, timed.seconds, Bytes{0});
    worth.number = cell_.first_number + timed.index;
    return worth;
  }

  /// The plans that may be the best, starting with the first that has not been evaluated. They are
  /// sorted by time or, if the lowest peak is sought, by their lower bounds, so that the ceiling
  /// falls early.
  [[nodiscard]] std::vector<Timed> plans_in_order() {
    last_ = visit_.after;
    std::vector<Timed> order = plans_.listed();
    std::erase_if(order, [&](const Timed& timed) {
      const bool hopeless = visit_.incumbent && question_.pruning.time_bound &&
                            worth_of_time(timed) > *visit_.incumbent;
      return hopeless || is_done(timed) || is_beaten(timed.index);
    });
    std::ranges::sort(order);
    if (!stops_at_first(question_)) {
      std::ranges::stable_sort(order, {},
                               [this](const Timed& timed) { return plans_.floor(timed.index); });
    }
    return order;
  }

  /// Whether an earlier visit came as far as this plan, in the order of `plans_in_order`.
  [[nodiscard]] bool is_done(const Timed& timed) {
    if (!visit_.after) {
      return false;
    }
    if (!stops_at_first(question_)) {
      const Bytes floor = plans_.floor(timed.index);
      const Bytes last = plans_.floor(visit_.after->index);
      return floor < last || (floor == last && !(*visit_.after < timed));
    }
    return !(*visit_.after < timed);
  }

  /// Whether the replay of a plan with a part of its work proves that plan number `index` is not
  /// the best.
  [[nodiscard]] bool is_beaten(std::uint64_t index) const {
    const Pruning& pruning = question_.pruning;
    if (!visit_.best_replay || !pruning.time_bound || !pruning.dominance ||
        !stops_at_first(question_)) {
      return false;
    }
    return std::ranges::any_of(visit_.replayed, [&](const Timed& other) {
      return plans_.choices().recomputes_more(index, other.index) &&
             worth_of_time({.seconds = other.seconds, .index = index}) > *visit_.best_replay;
    });
  }

  /// Whether what the plan's optimizer keeps on the host is too much for it.
  [[nodiscard]] bool lacks_host(const Timed& timed) {
    const cost::HostMemory* const host = plans_.host(timed.index);
    if (host == nullptr || host->fits()) {
      return false;
    }
    if (!answer_.least_host || host->bytes < answer_.least_host->host) {
      const Result<Bytes> peak = plans_.peak(timed.index, ceiling());
      static_cast<void>(peak && keep_too_large(plans_.rated(timed, *peak), answer_));
    }
    return true;
  }

  /// `ceiling_of`. If the lowest peak is sought, it is at most the lowest peak that this visit has
  /// found.
  [[nodiscard]] Bytes ceiling() const {
    const bool lowest =
        question_.objective == Objective::kMemory && answer_.best && !answer_.worth.late;
    return lowest ? std::min(ceiling_, answer_.best->peak) : ceiling_;
  }

  [[nodiscard]] Status evaluate(const Timed& timed) {
    const Bytes highest = ceiling();
    const Result<Bytes> peak = plans_.peak(timed.index, highest);
    if (!peak) {
      return peak.error();
    }
    ++answer_.evaluated;
    if (*peak > plans_.capacity() || plans_.may_use_host(timed.index)) {
      if (keep_too_large(plans_.rated(timed, *peak), answer_)) {
        return ok();
      }
    }
    if (*peak > highest) {
      return ok();  // This is the peak of one rank only, and already no lower than the best.
    }
    Worth worth = worth_of(question_, cell_.cell.plan, timed.seconds, *peak);
    worth.number = cell_.first_number + timed.index;
    if (!answer_.best || worth < answer_.worth) {
      answer_.best = plans_.rated(timed, *peak);
      answer_.worth = worth;
    }
    return ok();
  }

  const SearchQuestion& question_;
  const BoundedCell& cell_;
  const Visit& visit_;
  Bytes ceiling_;
  CellPlans plans_;
  std::optional<Timed> last_;
  CellAnswer answer_;
};

/// A cell that was opened because of its bound, although its plans take longer than the limit of
/// this visit.
std::optional<Next> beyond_limit(const SearchState& state, const BoundedCell& cell,
                                 const Visit& visit, const BlockTimes& blocks) {
  if (visit.after || !visit.limit) {
    return std::nullopt;
  }
  const SearchQuestion& question = state.question;
  const ir::ParallelPlan& plan = cell.cell.plan;
  const double seconds = least_step(question.space.model, plan, blocks).value();
  Worth worth = worth_of(question, plan, seconds, Bytes{0});
  worth.number = cell.first_number;
  return worth > *visit.limit ? std::optional(Next{.seconds = seconds, .bound = worth, .after = {}})
                              : std::nullopt;
}

/// The greatest distance of replays below the closed form, with a margin.
/// Source: tests/bench/results/form_epyc-2vcpu_2026-11-27.md.
constexpr TimeError kTimeError{.of_space = 0.03, .of_cell = 0.005};

class MegatronEvaluator final : public Evaluator {
 public:
  explicit MegatronEvaluator(const SearchInputs& inputs)
      : question_(inputs.question),
        memory_(inputs.records.of<PlanMemory>(inputs.question.space.model, inputs.question.device)),
        blocks_(inputs.question.space.model, inputs.device, inputs.question.machine) {}

  [[nodiscard]] std::size_t work_of_cell() const override { return 1; }
  [[nodiscard]] TimeError time_error() const override { return kTimeError; }
  [[nodiscard]] Seconds least_of_cell(const Cell& cell) override {
    // The first choice recomputes the least, so no other choice takes less time.
    const ir::ModelSpec& model = question_.space.model;
    return least_step(model, cell.plan, block_floor(model, cell.plan, question_.machine));
  }

  [[nodiscard]] Bytes held_floor(const Cell& cell) const override {
    return cost::memory_floor(question_.space.model,
                              least_states(question_.space.constraints, cell.plan));
  }

  [[nodiscard]] Bytes cell_floor(const Cell& cell, Bytes enough) override {
    const ir::ParallelPlan lean = least_states(question_.space.constraints, cell.plan);
    const Bytes held = cost::memory_floor(question_.space.model, lean);
    return held > enough ? held : std::max(held, memory_.cell_floor(lean));
  }

  [[nodiscard]] Result<CellAnswer> search(const SearchState& state, const BoundedCell& cell,
                                          const Visit& visit) override {
    const Bytes ceiling = ceiling_of(state, cell, visit);
    if (question_.pruning.memory_floor && !visit.after &&
        cell_floor(cell.cell, ceiling) > ceiling) {
      // This is checked before the cell's pieces are sampled, because all cells are opened if
      // nothing fits.
      return CellAnswer{};
    }
    const Result<BlockTimes> blocks = blocks_.of(cell.cell.plan);
    if (!blocks) {
      return blocks.error();
    }
    if (std::optional<Next> later = beyond_limit(state, cell, visit, *blocks)) {
      CellAnswer answer;
      answer.next = later;
      answer.uncertain = blocks->host_share;
      return answer;
    }
    Result<CellAnswer> answer = CellVisit(state, memory_, cell, visit, *blocks)();
    if (answer) {
      answer->uncertain = blocks->host_share;
    }
    return answer;
  }

  [[nodiscard]] Result<CellAnswer> leanest(const SearchState& state,
                                           const BoundedCell& cell) override {
    const Result<BlockTimes> blocks = blocks_.of(cell.cell.plan);
    if (!blocks) {
      return blocks.error();
    }
    const Visit visit;
    return CellVisit(state, memory_, cell, visit, *blocks).leanest();
  }

  [[nodiscard]] Result<CellFront> front(const SearchState& state, const BoundedCell& cell,
                                        Bytes floor, const Front& front) override {
    const Pruning& pruning = question_.pruning;
    const ir::ParallelPlan& any = cell.cell.plan;
    const Result<BlockTimes> blocks = blocks_.of(any);
    if (!blocks) {
      return blocks.error();
    }
    CellFront answer;
    const double least = least_step(question_.space.model, any, *blocks).value();
    if (pruning.time_bound &&
        floor > front.ceiling(pace_of(any, least), any.world, cell.first_number)) {
      return answer;
    }
    CellPlans plans(state, memory_, cell, *blocks);
    std::vector<Timed> order = plans.listed();
    std::ranges::sort(order);
    // Later plans are slower, so they must need less memory.
    Bytes lowest = plans.capacity() + Bytes{1};
    for (const Timed& timed : order) {
      if (question_.stop.asked()) {
        answer.whole = false;
        break;
      }
      Bytes ceiling = lowest - Bytes{1};
      if (pruning.time_bound) {
        ceiling = std::min(ceiling, front.ceiling(pace_of(any, timed.seconds), any.world,
                                                  cell.first_number + timed.index));
      }
      if (ceiling < Bytes{0} || (pruning.memory_floor && plans.is_above(timed.index, ceiling))) {
        continue;
      }
      const Result<Bytes> peak = plans.peak(timed.index, ceiling);
      if (!peak) {
        return peak.error();
      }
      ++answer.evaluated;
      if (*peak <= ceiling) {
        lowest = *peak;
        answer.plans.push_back(plans.rated(timed, *peak));
      }
    }
    return answer;
  }

  [[nodiscard]] Result<Bytes> peak(const RatedPlan& leanest) override {
    return memory_.peak(cost::with_load(leanest.plan, load_of(question_, leanest.plan)));
  }

  void add_counts(MemoryCounts& counts) const override {
    const MemoryCounts own = memory_.counts();
    counts.plans += own.plans;
    counts.families += own.families;
    counts.samples += own.samples;
    counts.lowered += own.lowered;
  }

 private:
  const SearchQuestion& question_;
  PlanMemory& memory_;
  SampledBlocks blocks_;
};

}  // namespace

std::unique_ptr<Evaluator> megatron_evaluator(const SearchInputs& inputs) {
  return std::make_unique<MegatronEvaluator>(inputs);
}

}  // namespace headroom::plan
