#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/confidence.h"
#include "costmodel/estimate.h"
#include "model_ir/plan/plan_words.h"
#include "planner/evaluate/plan_figures.h"
#include "planner/search/stop_signal.h"
#include "planner/space/search_space.h"

namespace headroom::plan {

/// The objective: which plan is the best.
enum class Objective : std::uint8_t {
  kThroughput,  ///< Most tokens per second: the shortest step per token of a sequence.
  kGpus,        ///< Fewest GPUs, then the shortest step.
  kMemory,      ///< Lowest peak, then the shortest step.
  kCost,        ///< Least GPUs times step time, per token of a sequence.
  kMicroBatch,  ///< Greatest micro-batch, then the shortest step.
  kSequence,    ///< Longest sequence, then the shortest step.
};
[[nodiscard]] std::span<const ir::Word<Objective>> objective_words();

/// Rules that exclude plans without evaluating them. Switching a rule off does not change the
/// answer.
struct Pruning {
  bool time_bound = true;    ///< Excludes cells whose `least_step` is above the best.
  bool memory_floor = true;  ///< Excludes cells and plans whose floor exceeds the device.
  bool dominance = true;     ///< Excludes switches that add memory to a plan that is too large.
};

/// The progress of a search.
struct SearchProgress {
  bool listing = false;  ///< Whether the cells of the space are being listed: `cells` so far.
  std::uint64_t evaluated = 0;
  std::uint64_t cells = 0;
  std::uint64_t cells_done = 0;
  double best_seconds = 0;  ///< Step time of the best; 0: none yet.
  double bound = 0;         ///< See `PlanResult::bound`.
  double gap = 0;           ///< See `PlanResult::gap`; 1 if there is no best yet.
  std::uint64_t front = 0;  ///< Plans of the front; 0: its search has not begun.
};

struct SearchQuestion {
  SpaceQuestion space;
  cost::Machine machine;
  cost::DeviceSpec device;
  Bytes budget;  ///< The same as for `cost::estimate`; 0: the device's total.
  Objective objective = Objective::kThroughput;
  Pruning pruning;
  int threads = 1;
  /// Number of cells to look into; 0: all. Sixteen cells whose plans are all refused count as one,
  /// because nothing is lowered in them; a front counts each of them.
  std::uint64_t work_limit = 0;
  /// The search ends when the programs that it has lowered, for plans and for bounds, have so many
  /// events; 0: it does not end for this reason. Replays, the listing of the space and closed forms
  /// do not count. The search ends at the same place on every machine.
  std::uint64_t effort = 0;
  bool front = false;  ///< Whether to find the Pareto front, too.
  /// Whether the first plan that fits suffices; for the fewest GPUs, the first on so few. Plans
  /// that were not looked at may be better, even if the status says optimal.
  bool any = false;
  /// Whether the best plan is proven to be the best by its replay. If not, only the first plan by
  /// evaluated times that fits is replayed.
  bool proven = true;
  std::size_t replays = 1;  ///< Number of plans to replay, the best of as many cells.
  cost::Judge judge{};      ///< Applied to every replay; none: the replay's own verdict.
  double confidence = 0;    ///< Least chance to fit of the best plan, where `judge` gives one.
  /// Whether that chance is the one to fit without PyTorch emptying its cache. Such a search ends
  /// when it has refused many plans.
  bool at_once = false;
  /// Greatest step time of a plan per token of a sequence; 0: none. Plans beyond it are late, and
  /// none of them is the best.
  Seconds longest{};
  /// Standard deviation of the tokens per expert over their mean: the peak of plans with experts on
  /// several ranks is that of the busiest rank, in 19 of 20 steps. 0: even shares.
  double imbalance = 0;
  /// What the allocator may take if a plan is to fit with this confidence; none: all that the
  /// device has besides `outside_terms`.
  cost::Room room{};
  StopSignal stop{};
  /// What the search itself may take of this machine's memory. Where the cells of a space take
  /// more, those with the lowest bounds are searched first, and the others in further walks.
  Bytes memory{std::int64_t{1} << 30};
  std::function<void(const SearchProgress&)> progress;  ///< Called between waves.
};

enum class PlanStatus : std::uint8_t { kOptimal, kFeasible, kInfeasible, kUnknown };
/// "optimal", "feasible", "infeasible", "unknown".
[[nodiscard]] std::string_view name_of(PlanStatus status);

/// A plan and its step time when replayed kernel by kernel.
struct ReplayedPlan {
  RatedPlan plan;
  Seconds step;
};

/// Plans of the space that what lowers them refuses, for example because their combination is not
/// modelled. They count as plans that are not in the space.
struct Refused {
  const FrameworkSearch* framework = nullptr;
  Error error;
  std::uint64_t plans = 0;  ///< The number of plans that the search looked at.
};

struct PlanResult {
  PlanStatus status = PlanStatus::kUnknown;
  std::uint64_t space = 0;
  std::uint64_t evaluated = 0;  ///< Plans whose time and peak were evaluated.
  std::uint64_t rejected = 0;   ///< Plans that fitted according to the fast evaluation only.
  std::optional<RatedPlan> best;
  std::optional<cost::StepEstimate> estimate;  ///< The replay of the best.
  /// A lower bound for the replays of all plans of the space, in the unit of the objective: seconds
  /// of a step, GPUs, bytes, GPU seconds, sequences of a micro-batch or tokens of a sequence. If
  /// the status is optimal, it is the replayed value of the best; if infeasible, 0.
  double bound = 0;
  double gap = 0;  ///< (best - bound) / best.
  /// If nothing fits: the plan with the lowest peak that was found.
  std::optional<RatedPlan> leanest;
  /// If nothing fits: of the plans that only the host has no room for, the one that needs least of
  /// it.
  std::optional<RatedPlan> least_host;
  std::vector<const FrameworkSearch*> frameworks;  ///< The frameworks with plans in the space.
  std::vector<LeftOut> left_out;  ///< Values that were asked for and are not in the space.
  std::vector<Refused> refused;   ///< By framework and reason, in the order in which they were met.
  std::vector<RatedPlan> front;   ///< By time; each has been replayed.
  bool front_whole = false;       ///< Whether no plan is missing in the front.
  /// No plan is better than every plan of the front by more than this ratio in time, peak and GPUs.
  /// 0 if the front is whole, infinite if nothing is known.
  double front_gap = 0;
  std::uint64_t replays = 0;  ///< Plans that were replayed to find the best and to prove it.
  /// If more than one replay is asked for: the best replayed plans of as many cells, by replayed
  /// time.
  std::vector<ReplayedPlan> replayed;
  /// If there is no best: whether plans fit, all of them beyond `SearchQuestion::longest`.
  bool late = false;
  /// How much better, as a share (of the step; of the GPU seconds under `kCost`), a plan is that
  /// fits only if PyTorch empties its cache, and that was passed over for the best; 0: there is
  /// none. The bound is then that of plans that fit without.
  double passed_over = 0;
  /// Whether a part of the space was not even listed before the search was stopped. Then `space` is
  /// what was listed, and there is no bound: it is 0, and the gap is 1.
  bool cut = false;
  MemoryCounts memory;

  /// The step of the best plan, by its replay if there is one.
  [[nodiscard]] Seconds step() const {
    return estimate && estimate->time ? estimate->time->total : best->time.total();
  }
};

}  // namespace headroom::plan
