#pragma once

#include <string>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::torchtune {

/// The configuration that torchtune ships for this model and for the recipe that the plan needs, as
/// `tune run --config` takes it ("llama3_1/8B_lora"); empty if it ships none.
/// Source: pytorch/torchtune v0.6.1, the files below recipes/configs; the sizes are those of
/// torchtune/models/*/_model_builders.py.
[[nodiscard]] std::string shipped_config(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::torchtune
