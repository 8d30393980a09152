#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/adapter_changes.h"
#include "cli/held_changes.h"
#include "cli/plan_choices.h"
#include "cli/plan_search.h"
#include "cli/report/plan_commands.h"
#include "planner/explain/infeasible.h"
#include "planner/explain/offers.h"
#include "planner/placement/stage_placement.h"
#include "planner/search/frameworks.h"
#include "planner/search/search.h"
#include "runtimes/plan_file.h"

namespace headroom::cli {

/// The result of `plan` and its question.
struct PlanAnswer {
  const Arguments& arguments;
  PlanSearch search;
  plan::PlanResult result;
  double seconds = 0;  ///< Wall-clock time of the search and of the explanations.
  std::string why;     ///< Answers to `--why`, one per line.
  std::optional<plan::Infeasibility> infeasible{};  ///< Set if no plan fits.
  std::vector<HeldChange> held_changes{};           ///< Plans outside the space that fit.
  std::vector<AdapterChange> adapter_changes{};     ///< Plans that train adapters and fit.
  std::vector<plan::StagePlacement> placements{};   ///< Only under `explain`.
  std::optional<ir::PlanFile> file{};               ///< The plan that was found.
  std::optional<PlanCommands> commands{};           ///< Commands that use the plan.
  std::vector<plan::FrameworkBest> frameworks{};    ///< The best plan of each.
  std::vector<plan::Offer> offers{};                ///< Faster values that change the training.
  bool dropped_masters = false;                     ///< `FoundPlans::dropped_masters`.
  TrainingRun run{};                     ///< The run that is trained, and its costs by GPU type.
  std::vector<cost::DeviceSpec> gpus{};  ///< The GPU types that were asked for.
  std::size_t type = 0;                  ///< The position of the best plan's type in `gpus`.
  std::vector<std::string> estimated{};  ///< Types whose times are estimates of their datasheets.
  std::vector<PlanChoice> choices{};     ///< The best plan by type and number of GPUs.
  std::optional<plan::PlanResult> fastest{};  ///< The fastest plan, if no plan is in time.
  std::vector<std::string> notes{};           ///< The notes shown on standard error.
};

/// Tokens of a step divided by its time.
[[nodiscard]] double tokens_per_second(const PlanSearch& search, const plan::RatedPlan& plan);

/// The sentence on the host memory that `plan::PlanResult::least_host` needs, and what there is.
[[nodiscard]] std::string host_need(const plan::RatedPlan& plan, const cost::DeviceSpec& device);

/// `plan::PlanResult::bound` with its unit.
[[nodiscard]] std::string bound_text(plan::Objective objective, double bound);

}  // namespace headroom::cli
