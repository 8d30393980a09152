#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/option_text.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/typed/plan_options.h"

namespace headroom::cli {

using ir::adapter_text;
using ir::options_of;
using ir::usual_options;
using ir::usual_plan;

/// The options that define a plan. They are the same in every verb that takes a plan.
[[nodiscard]] std::span<const OptionSpec> plan_option_specs();

/// `--plan`, the same in every verb that has it.
[[nodiscard]] OptionSpec plan_file_option();

/// A plan, and notes on how it was read.
struct PlanRequest {
  ir::ParallelPlan plan;
  std::vector<std::string> notes;  ///< Keys of a DeepSpeed file that change no memory.
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

/// Reads the plan from defaults, then the plan of `--plan`, then a framework's own file
/// (`--deepspeed`), then the options; each overrides the previous ones. "auto" in a DeepSpeed file
/// takes the options' values.
///
/// Model:   the options of a framework imply it (`--zero` implies DeepSpeed). If a framework keeps
///          fp32 masters itself, bf16 and fp16 include them. Several GPUs without another framework
///          use DDP. The sequence is 2048, or all positions of a model that has fewer.
/// Errors:  kInvalidArgument with the option, its value and what it accepts; those of the files.
[[nodiscard]] Result<PlanRequest> read_plan_options(const Arguments& arguments,
                                                    const ir::ModelSpec& model);

/// Reads `--lora` and `--qlora` into `plan`, which keeps its own adapters if neither is given.
///
/// Errors:  kInvalidArgument if both are given, and for their keys.
[[nodiscard]] Status read_adapter_options(const Arguments& arguments, ir::ParallelPlan& plan);

}  // namespace headroom::cli
