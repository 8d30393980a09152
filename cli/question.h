#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/model_argument.h"
#include "cli/plan_options.h"
#include "costmodel/hardware/hardware_spec.h"

namespace headroom::cli {

/// A model, a GPU and a plan: what most verbs are about.
struct Question {
  LoadedModel model;
  cost::DeviceSpec device;
  Bytes budget;  ///< 0: the device's total.
  PlanRequest request;
};

/// --gpu and --budget.
[[nodiscard]] std::span<const OptionSpec> device_options();
/// --gpu, --budget, --as and everything that makes a plan.
[[nodiscard]] std::vector<OptionSpec> question_options();
/// The same without what is about the device: for verbs that need none.
[[nodiscard]] std::vector<OptionSpec> plan_question_options();

/// --gpu. Errors: kInvalidArgument if it is missing; those of `cost::load_device`.
[[nodiscard]] Result<cost::DeviceSpec> read_gpu(const Arguments& arguments);
/// --budget; 0: not given. Errors: kInvalidArgument.
[[nodiscard]] Result<Bytes> read_budget(const Arguments& arguments);

/// Reads all of it.
///
/// Errors:  those of the parts; kInvalidArgument if --gpu is missing.
[[nodiscard]] Result<Question> read_question(const Arguments& arguments);

/// A model and a plan for it, without a device.
struct PlanQuestion {
  LoadedModel model;
  PlanRequest request;
};
/// Errors:  those of the parts.
[[nodiscard]] Result<PlanQuestion> read_plan_question(const Arguments& arguments);

/// Writes the notes of both to `err`, a line each.
void print_notes(std::ostream& err, const LoadedModel& model, const PlanRequest& request);

/// The command line that asks the same for `plan`: `verb`, the model and the options that were
/// given, changed where `plan` differs from the question's.
[[nodiscard]] std::string command_line(std::string_view verb, const Arguments& arguments,
                                       const Question& question, const ir::ParallelPlan& plan);

/// The options in which `plan` differs from the question's, as one would type them.
[[nodiscard]] std::string changed_options(const Question& question, const ir::ParallelPlan& plan);
/// The same with the options that must go: "--micro-batch 2, without --offload".
[[nodiscard]] std::string worded_changes(const Question& question, const ir::ParallelPlan& plan);

}  // namespace headroom::cli
