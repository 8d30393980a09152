#pragma once

#include <string>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/typed/option_text.h"

/// A plan as the options that a user types for it.
namespace headroom::ir {

/// The plan of a command line without options of the plan. Its sequence is 2048, or all positions
/// of a model that has fewer.
[[nodiscard]] ParallelPlan usual_plan(const ModelSpec& model);

/// The options that request `plan`: the command line turns them into it again. Bucket sizes and
/// thresholds of ZeRO have no options; they come from `--plan` or `--deepspeed`.
[[nodiscard]] std::vector<OptionValue> options_of(const ParallelPlan& plan, const ModelSpec& model);

/// The adapters of a plan as the value of their option: "r=16,targets=q_proj+v_proj". Adapters
/// share one list of keys with the quantisation of the frozen weights.
[[nodiscard]] std::string adapter_text(const ParallelPlan& plan);

/// The options for the defaults that `options_of` leaves out.
[[nodiscard]] std::vector<OptionValue> usual_options();

}  // namespace headroom::ir
