#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/plan_search.h"
#include "cli/training_run.h"
#include "model_ir/base/result.h"
#include "planner/search/search.h"

namespace headroom::cli {

/// A GPU type of the question, and the search on it.
struct GpuType {
  /// Those of the question, with this GPU in --gpu and its own numbers in --price and --power.
  Arguments arguments;
  PlanSearch search;
};

/// The GPU types of the question, in the order of --gpu, and the run that they are to train.
struct GpuTypes {
  std::vector<GpuType> types;
  TrainingRun run;
};

/// Reads the question of `plan` for each name of --gpu.
///
/// Errors:  those of `read_plan_search` and `read_training_run`; kInvalidArgument for an option
/// that
///          belongs to one GPU type beside several types, and for --objective cost with several
///          types without any price.
[[nodiscard]] Result<GpuTypes> read_gpu_types(const Arguments& arguments);

/// The best plan of a GPU type on a number of GPUs.
struct PlanChoice {
  std::size_t type = 0;  ///< Position in `GpuTypes::types`.
  std::int64_t gpus = 0;
  plan::PlanStatus status = plan::PlanStatus::kUnknown;
  bool in_space = true;  ///< Whether there are plans on so many GPUs.
  std::optional<plan::RatedPlan> best;
  std::optional<cost::StepEstimate> estimate;  ///< The replay of the best.
  bool late = false;                           ///< Training takes longer than --within.
};

/// The step as it was replayed, or as the search evaluated it.
[[nodiscard]] Seconds step_of(const plan::RatedPlan& plan,
                              const std::optional<cost::StepEstimate>& estimate);

/// The position of the result that is best under the objective; types without a price are not the
/// cheapest. Without any plan, that of the type whose plans come closest: the fastest late ones,
/// then the type with the most memory.
[[nodiscard]] std::size_t best_type(const GpuTypes& asked,
                                    const std::vector<plan::PlanResult>& found);

/// Adds to `best`, the result `found[type]`, what the searches of the other types have not ruled
/// out: unless all of them were searched to their end, `best` is not proven to be the best of all.
///
/// Model:   the bound becomes the best that any type may still have, in the unit that the
///          objective has on the type of `best`. Under kCost a bound of another type is worth its
///          GPU seconds at the ratio of the two prices; types without a price do not count, as in
///          `best_type`.
void doubt_best_type(const GpuTypes& asked, const std::vector<plan::PlanResult>& found,
                     std::size_t type, plan::PlanResult& best);

/// Whether a table of GPU types and numbers of GPUs has more than one row.
[[nodiscard]] bool has_choices(const GpuTypes& asked);

/// The best plan of each GPU type on each number of GPUs: of all numbers that were asked for or, of
/// more than 16, of the powers of two among them, the least and the greatest. `found` has the
/// answer of each type's search, whose number of GPUs is among the rows, too.
///
/// Model:   the plans are searched for the objective if several plans on as many GPUs differ in it,
///          and otherwise for the shortest step. If no plan is in time, the row has the fastest.
/// Errors:  those of `plan::search`.
[[nodiscard]] Result<std::vector<PlanChoice>> choices_of(
    const GpuTypes& asked, const std::vector<plan::PlanResult>& found,
    std::span<plan::SearchRecords> records, const std::function<plan::StopSignal(double)>& within,
    const std::function<void(std::string_view)>& say);

/// The fastest plan of a type of which no plan is in time, by `plan::search_without_emptying`.
///
/// Errors:  those of `plan::search`.
[[nodiscard]] Result<plan::PlanResult> fastest_of(plan::SearchQuestion question,
                                                  plan::SearchRecords& records);

}  // namespace headroom::cli
