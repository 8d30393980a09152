#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cli {

/// Options that make a plan, the same in every verb that takes one.
[[nodiscard]] std::span<const OptionSpec> plan_option_specs();

/// `--plan`, the same in every verb that has it.
[[nodiscard]] OptionSpec plan_file_option();

/// A plan and what is worth telling about how it came to be.
struct PlanRequest {
  ir::ParallelPlan plan;
  std::vector<std::string> notes;  ///< Keys of a DeepSpeed file that change no memory.
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

/// The plan that the command line asks for: defaults, then the plan of `--plan`, then a framework's
/// own file
/// (`--deepspeed`), then the options, each over what came before. "auto" in a DeepSpeed file takes
/// the options' values.
///
/// Model:   the options of a framework imply it (`--zero` is DeepSpeed). Where a framework keeps
///          fp32 masters itself, bf16 and fp16 have them as well. Several GPUs without another
///          framework are DDP. The sequence is 2048, or all positions of a model that has fewer.
/// Errors:  kInvalidArgument naming the option, its value and what it takes; those of the files.
[[nodiscard]] Result<PlanRequest> read_plan_options(const Arguments& arguments,
                                                    const ir::ModelSpec& model);

/// An option with its value; a flag has none.
struct OptionValue {
  std::string name;
  std::string value;
  friend bool operator==(const OptionValue&, const OptionValue&) = default;
};
/// The options that ask for `plan`: `read_plan_options` turns them back into it. Bucket sizes and
/// thresholds of ZeRO have no options; they come from `--plan` or `--deepspeed`.
[[nodiscard]] std::vector<OptionValue> options_of(const ir::ParallelPlan& plan,
                                                  const ir::ModelSpec& model);

/// The options that say what `options_of` leaves out because it is usual.
[[nodiscard]] std::vector<OptionValue> usual_options();

}  // namespace headroom::cli
