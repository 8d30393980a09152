#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/launch.h"

namespace headroom::ir::transformers {

/// The command-line arguments of transformers' `TrainingArguments` that a plan stands for.
[[nodiscard]] std::vector<std::string> training_arguments(const ParallelPlan& plan);

/// Lines of a training script that no argument stands for: how the model is loaded, adapters, which
/// layers are checkpointed. `name`: the model as the user named it. `storage`: the type of the
/// tensors that hold 4-bit weights; none: bitsandbytes' usual one.
[[nodiscard]] std::vector<std::string> script_lines(const ModelSpec& model,
                                                    const ParallelPlan& plan,
                                                    const std::string& name,
                                                    std::optional<DType> storage = {});

/// The lines that checkpoint some of the layers only; none for a plan that checkpoints all or none.
[[nodiscard]] std::vector<std::string> checkpointing_lines(const ModelSpec& model,
                                                           const ParallelPlan& plan);

}  // namespace headroom::ir::transformers
