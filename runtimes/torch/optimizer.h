#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// What an optimizer keeps between steps.
struct OptimizerState {
  /// Tensors of one parameter, in the order in which the optimizer makes them; empty until its
  /// first step with a gradient.
  using Tensors = std::vector<Tensor>;
  std::vector<Tensors> of_parameter;
  /// Tensors shared by all parameters (the code tables of 8-bit states).
  Tensors shared;
  /// Muon: which parameters are matrices of the layers; AdamW steps the others.
  std::vector<bool> layer_matrices;
};

/// One optimizer step over `parameters`, as the Python and CUDA code behind it allocates and frees.
/// Parameters without a gradient are skipped. New states have the role kOptimizerState, everything
/// else kTemporary; after the step only states are left.
///
/// Model:  states per parameter: AdamW two of the parameter's type (fused: and an fp32 scalar);
///         SGD none, with momentum one; Adafactor a row and a column of the last two dims, or one
///         tensor for vectors; Lion one; Muon one for a matrix of the layers, AdamW's for the rest;
///         8-bit states a byte per element with an fp32 factor per block of 256 elements where the
///         parameter has 4096 elements or more.
/// Errors: InternalError for a form that an optimizer does not have (the plan check refuses it).
/// Source: pytorch/pytorch 2.11 torch/optim/{adam,sgd,_adafactor,_muon}.py;
/// huggingface/transformers 5.17
///         optimization.py (Adafactor); bitsandbytes 0.50.2 bitsandbytes/optim/.
void step(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
          OptimizerState& state);

/// `optimizer.zero_grad(set_to_none=True)`: gradients go in parameter order.
void zero_grad(Eager& eager, std::span<const Tensor> parameters);

}  // namespace headroom::ir::torch
