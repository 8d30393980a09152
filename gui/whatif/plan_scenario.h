#pragma once

#include <string>
#include <vector>

#include "gui/whatif/scenario.h"
#include "model_ir/base/result.h"
#include "runtimes/plan_file.h"

namespace headroom::gui {

/// What a plan file says, as far as the window can ask it.
struct PlanScenario {
  Scenario scenario;
  std::vector<ir::Assumption> left_out;  ///< What only the command line takes into account.
};

/// Reads a plan file: model, GPU, plan, budget, node and host. Options of the plan that the file
/// does not have are those that `headroom fit --plan` takes for it, and budget and host are not
/// given then. Model, GPU, price and tokens are those of `usual` if the file does not say them.
///
/// Errors:  those of `ir::read_plan_file`; kInvalidInput for a size or a rate that is none.
[[nodiscard]] Result<PlanScenario> read_plan_scenario(const std::string& config_dir,
                                                      const std::string& path,
                                                      const Scenario& usual);

/// `scenario` with no longer a sequence than its model has positions, as `headroom fit` asks by
/// default.
[[nodiscard]] Scenario with_possible_sequence(const std::string& config_dir, Scenario scenario);

}  // namespace headroom::gui
