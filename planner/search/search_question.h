#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "costmodel/estimate.h"
#include "model_ir/plan/plan_words.h"
#include "planner/evaluate/plan_figures.h"
#include "planner/space/search_space.h"

namespace headroom::plan {

/// What is best.
enum class Objective : std::uint8_t {
  kThroughput,  ///< Most tokens a second: the shortest step, for each token of a sequence.
  kGpus,        ///< Fewest GPUs, then the shortest step.
  kMemory,      ///< Lowest peak, then the shortest step.
  kCost,        ///< GPUs times the time of a step, for each token of a sequence.
  kMicroBatch,  ///< Greatest micro-batch, then the shortest step.
  kSequence,    ///< Longest sequence, then the shortest step.
};
[[nodiscard]] std::span<const ir::Word<Objective>> objective_words();

/// Rules that leave plans out unseen. Each can be turned off: the answer stays the same.
struct Pruning {
  bool time_bound = true;    ///< Cells whose `least_step` is above the best.
  bool memory_floor = true;  ///< Cells and plans whose floor is above what the device has.
  bool dominance = true;     ///< Switches that only add memory to a plan that is too large.
};

/// How far a search has come.
struct SearchProgress {
  std::uint64_t evaluated = 0;
  std::uint64_t cells = 0;
  std::uint64_t cells_done = 0;
  double best_seconds = 0;  ///< Of a step; 0: none yet.
  double bound = 0;         ///< As `PlanResult::bound`.
  double gap = 0;           ///< As `PlanResult::gap`; 1 before there is a best.
  std::uint64_t front = 0;  ///< Plans of the front; 0: it is not looked for yet.
};

struct SearchQuestion {
  SpaceQuestion space;
  cost::Machine machine;
  cost::DeviceSpec device;
  Bytes budget;  ///< As `cost::estimate` takes it; 0: the device's total.
  Objective objective = Objective::kThroughput;
  Pruning pruning;
  int threads = 1;
  std::uint64_t work_limit = 0;  ///< Cells that are looked into; 0: all.
  bool front = false;            ///< Also the Pareto front.
  /// The first plan that fits will do; of the fewest GPUs the first on so few. What was not looked
  /// at may be better, also where the status says optimal.
  bool any = false;
  std::size_t replays = 1;  ///< Plans that are replayed: the best of so many cells.
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const SearchProgress&)> progress;  ///< Called between waves.
};

enum class PlanStatus : std::uint8_t { kOptimal, kFeasible, kInfeasible, kUnknown };
/// "optimal", "feasible", "infeasible", "unknown".
[[nodiscard]] std::string_view name_of(PlanStatus status);

/// A plan and how long its step takes as replayed, kernel by kernel.
struct ReplayedPlan {
  RatedPlan plan;
  Seconds step;
};

struct PlanResult {
  PlanStatus status = PlanStatus::kUnknown;
  std::uint64_t space = 0;
  std::uint64_t evaluated = 0;  ///< Plans whose time and peak were worked out.
  std::uint64_t rejected = 0;   ///< Fit by the fast path, but not when replayed.
  std::optional<RatedPlan> best;
  std::optional<cost::StepEstimate> estimate;  ///< The replay of the best.
  /// No plan of the space is better: seconds of a step, GPUs, bytes, GPU seconds, sequences of a
  /// micro-batch or tokens of a sequence, as the objective has it; the best's own if optimal, 0 if
  /// infeasible.
  double bound = 0;
  double gap = 0;  ///< (best - bound) / best.
  std::optional<RatedPlan>
      leanest;  ///< Nothing fits: of the plans worked out, one that comes near.
  /// Nothing fits: of the plans worked out that fit the device, but not the host, the one that
  /// takes least of the host.
  std::optional<RatedPlan> least_host;
  std::vector<RatedPlan> front;  ///< By time; each has been replayed.
  bool front_whole = false;      ///< No plan of the space is missing in it.
  /// No plan is better than some of the front by more than this share in time, peak and GPUs; 0 if
  /// it is whole, infinite where nothing can be said.
  double front_gap = 0;
  std::vector<RatedPlan> next;  ///< The best of other cells, by worth; `replays` - 1 of them.
  std::vector<ReplayedPlan> replayed;  ///< `best` and `next` by replayed time, if more than one.
  MemoryCounts memory;
};

}  // namespace headroom::plan
