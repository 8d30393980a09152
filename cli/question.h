#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/command.h"

#include "cli/model_argument.h"
#include "cli/plan_options.h"
#include "costmodel/hardware/hardware_spec.h"

namespace headroom::cli {

/// A model, a GPU and a plan: the question of most verbs.
struct Question {
  LoadedModel model;
  cost::DeviceSpec device;
  Bytes budget;  ///< 0: the device's total.
  PlanRequest request;
};

/// --gpu and --budget.
[[nodiscard]] std::span<const OptionSpec> device_options();
/// The options --gpu, --budget, --as and all options of a plan.
[[nodiscard]] std::vector<OptionSpec> question_options();
/// The same without the options of the device, for verbs that need no device.
[[nodiscard]] std::vector<OptionSpec> plan_question_options();

/// The GPU that `name` means: a name of the catalogue, another name or the product's name of an
/// entry, or a .json file. What --host-memory and its like say of the host is left out.
///
/// Errors:  those of `find_config_dir` and `cost::load_device`.
[[nodiscard]] Result<cost::DeviceSpec> find_gpu(const Arguments& arguments,
                                                const std::string& name);
/// Reads --gpu. Errors: kInvalidArgument if it is missing; those of `cost::load_device`.
[[nodiscard]] Result<cost::DeviceSpec> read_gpu(const Arguments& arguments);
/// Reads --budget; 0 if it is not given. Errors: kInvalidArgument.
[[nodiscard]] Result<Bytes> read_budget(const Arguments& arguments);

/// Reads the whole question.
///
/// Errors:  those of the parts; kInvalidArgument if --gpu is missing.
[[nodiscard]] Result<Question> read_question(const Arguments& arguments);

/// A model and a plan for it, without a device.
struct PlanQuestion {
  LoadedModel model;
  PlanRequest request;
};
/// Reads model and plan.
///
/// Errors:  those of the parts.
[[nodiscard]] Result<PlanQuestion> read_plan_question(const Arguments& arguments);

/// Adds the notes of both.
void add_notes(const Context& context, const LoadedModel& model, const PlanRequest& request);
/// What is to be known about predictions for this GPU; empty for one like those measured.
[[nodiscard]] std::vector<std::string> device_notes(const cost::DeviceSpec& device);

/// Whether runs were measured on GPUs of this kind, so that the errors of the table apply to them.
[[nodiscard]] bool is_measured(const cost::DeviceSpec& device);

/// What was made of the GPU that was typed: which entry of the catalogue a shorter name means where
/// it may mean several, and that the budget is more than the GPU has.
[[nodiscard]] std::vector<std::string> asked_device_notes(const Arguments& arguments,
                                                          const cost::DeviceSpec& device,
                                                          Bytes budget);

/// What is to be known about the prediction of a plan: that of the GPU, and what the framework says
/// of the plan and of the plan on this GPU.
[[nodiscard]] std::vector<std::string> notes_of(const ir::ModelSpec& model,
                                                const cost::DeviceSpec& device,
                                                const ir::ParallelPlan& plan);

/// The command line that asks the same question for `plan`: `verb`, the model and the given
/// options, changed where `plan` differs from the question's plan.
[[nodiscard]] std::string command_line(std::string_view verb, const Arguments& arguments,
                                       const Question& question, const ir::ParallelPlan& plan);

/// The options in which `plan` differs from the question's plan, as the user would type them.
[[nodiscard]] std::string changed_options(const Question& question, const ir::ParallelPlan& plan);
/// The same, including the options to leave out: "--micro-batch 2, without --offload".
[[nodiscard]] std::string worded_changes(const Question& question, const ir::ParallelPlan& plan);

}  // namespace headroom::cli
