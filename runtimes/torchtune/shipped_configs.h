#pragma once

#include <string>
#include <string_view>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::torchtune {

/// The configuration that torchtune ships for this model and for the recipe that the plan needs, as
/// `tune run --config` takes it ("llama3_1/8B_lora"); empty if it ships none.
/// Source: pytorch/torchtune v0.6.1, the files below recipes/configs; the sizes are those of
/// torchtune/models/*/_model_builders.py.
///
/// `name`: the model as the user named it. It tells Llama 3.3 from 3.1, and Qwen2 from Qwen2.5,
/// whose sizes are the same.
[[nodiscard]] std::string shipped_config(const ModelSpec& model, const ParallelPlan& plan,
                                         std::string_view name);

/// Whether a configuration has the key `optimizer.fused`, which bitsandbytes' optimizers refuse.
[[nodiscard]] bool names_fused(std::string_view config);

}  // namespace headroom::ir::torchtune
