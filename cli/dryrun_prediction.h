#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "validators/dryrun/launcher.h"

namespace headroom::cli {

/// The prediction of headroom itself for the program of a dry run.
struct DryRunPrediction {
  std::string of;  ///< The question: "headroom fit ... --gpu h100-80gb", or what stands for it.
  Bytes peak_allocated;
  Bytes peak_reserved;
  std::string moment;                ///< "step 2, backward: log_softmax"
  std::vector<Bytes> by_category;    ///< At the peak, in the order of `check::dry_run_category`.
  std::vector<std::string> remarks;  ///< What it assumes or leaves out.
  std::string command;               ///< The question as it can be typed; empty: it cannot.
};

/// `--against PLAN.json`.
[[nodiscard]] OptionSpec against_option();

/// The prediction for a given plan on the GPU of the dry run.
///
/// Errors:  those of reading and judging a plan, as in `fit`.
[[nodiscard]] Result<DryRunPrediction> predict_plan(const Arguments& arguments);

/// The prediction for the plan that a process recognised in its program.
///
/// Errors:  kInvalidInput whose `got` says in one phrase what is missing or not modelled.
[[nodiscard]] Result<DryRunPrediction> predict_program(const Arguments& arguments,
                                                       const check::DryRunRequest& request,
                                                       const check::DryRunReport& report);

}  // namespace headroom::cli
