#pragma once

#include <vector>

#include "cli/arguments.h"
#include "cli/model_argument.h"
#include "model_ir/base/result.h"
#include "planner/search/search.h"

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
  bool front = false;
  std::size_t replays = 1;

  /// The returned question refers to this object.
  [[nodiscard]] plan::SearchQuestion question() const;
};

/// The options that define the space to search and how to search it.
[[nodiscard]] std::vector<OptionSpec> plan_search_options();

/// Reads the question.
///
/// Errors:  those of the readers, of the catalogue and of `plan::parse_axis`.
[[nodiscard]] Result<PlanSearch> read_plan_search(const Arguments& arguments);

}  // namespace headroom::cli
