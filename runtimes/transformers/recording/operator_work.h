#pragma once

#include <vector>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::transformers {

/// Allocates the workspaces that the libraries behind an operator take at their first call.
void touch_workspaces(torch::Eager& eager, const Instruction& instruction,
                      const std::vector<torch::Tensor>& inputs);

/// Gives the device what an ATen operator computes: a matrix product, attention, or traffic.
/// Operators that are not known by name count as kernels that read their inputs and write their
/// outputs once.
void give_work(torch::Eager& eager, const Instruction& instruction,
               const std::vector<torch::Tensor>& inputs, const std::vector<torch::Tensor>& outputs);

}  // namespace headroom::ir::transformers
