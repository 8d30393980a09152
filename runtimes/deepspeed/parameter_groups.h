#pragma once

#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::deepspeed {

/// The trainable parameters in the optimizer's parameter groups, each in the module's order. Groups
/// without parameters are left out.
using ParameterGroups = std::vector<std::vector<torch::Tensor>>;

/// One group; with `zero.decay_groups`, one of parameters with weight decay and one of norms and
/// biases.
/// Source: huggingface/transformers 5.17 src/transformers/trainer.py, get_decay_parameter_names;
/// deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/engine.py, _configure_optimizer.
[[nodiscard]] ParameterGroups parameter_groups(const transformers::Model& model,
                                               const ZeroPlan& zero);

}  // namespace headroom::ir::deepspeed
