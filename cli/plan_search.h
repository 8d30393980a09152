#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/model_argument.h"
#include "model_ir/base/result.h"
#include "planner/search/search.h"
#include "runtimes/plan_file.h"

namespace headroom::cli {

/// The question of `plan`, `explain` and `sweep`.
struct PlanSearch {
  LoadedModel model;
  plan::Constraints constraints;
  ir::ParallelPlan base;
  std::int64_t global_batch = 0;
  cost::DeviceSpec device;
  Bytes budget;
  cost::Machine machine;
  plan::Objective objective = plan::Objective::kThroughput;
  int threads = 1;
  std::uint64_t work_limit = 0;
  Bytes memory{std::int64_t{1} << 30};  ///< `plan::SearchQuestion::memory`.
  bool front = false;
  std::size_t replays = 1;
  double imbalance = 0;                        ///< `plan::SearchQuestion::imbalance`.
  Seconds longest{};                           ///< `plan::SearchQuestion::longest`.
  double confidence = 0.9;                     ///< Least chance to fit of the plan.
  std::vector<cost::ResidualSet> residuals{};  ///< Errors that say the chance.
  std::optional<ir::ParallelPlan> filed;       ///< The plan of `--plan`.
  /// Whether fp32 master weights are only the default: a search that finds nothing with them goes
  /// on without.
  bool may_drop_masters = false;
  /// Whether lengths between those of the search are tried, too, since none was named.
  bool any_length = false;

  /// The returned question refers to this object.
  [[nodiscard]] plan::SearchQuestion question() const;
};

/// The result of a search.
struct FoundPlans {
  plan::PlanResult result;
  bool dropped_masters = false;  ///< The plans have weights and states in 16 bits.
};

/// Searches `question`, which is that of `search`. If no plan fits and `may_drop_masters` is set,
/// searches the frameworks that can do without fp32 master weights once more, in bf16. If a plan
/// fits then, question and search become those that found it. The longest sequence is first
/// searched among powers of two, and then among seven lengths above the one that was found.
///
/// Errors:  those of `plan::search`.
[[nodiscard]] Result<FoundPlans> find_plans(PlanSearch& search, plan::SearchQuestion& question,
                                            plan::SearchRecords& records);

/// The options that define the space to search and how to search it.
[[nodiscard]] std::vector<OptionSpec> plan_search_options();

/// The search that was typed or that led to the plan of `--plan`, as the plan file keeps it: axes,
/// batch and objective. What does not change the answer is left out.
[[nodiscard]] std::vector<ir::Assumption> search_assumptions(const Arguments& arguments);

/// The arguments with the search of the file of `--plan` where nothing was typed. A plan that was
/// not searched is asked for with its own GPUs, framework, sequence and batch; what no axis says
/// comes from the plan. Each value of a list is kept once, also without --plan.
///
/// Errors:  those of `ir::parse_plan_file`; kInvalidInput for an option that no search has.
[[nodiscard]] Result<Arguments> with_filed_search(const Arguments& arguments);

/// What the command line says instead of the file of `--plan`.
[[nodiscard]] std::vector<std::string> filed_notes(const Arguments& arguments);

/// Reads the question.
///
/// Errors:  those of the readers, of the catalogue and of `plan::parse_axis`.
[[nodiscard]] Result<PlanSearch> read_plan_search(const Arguments& arguments);

}  // namespace headroom::cli
