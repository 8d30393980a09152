#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// The state of an optimizer between steps.
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

/// One optimizer step over `parameters`, with the allocations and frees of its Python and CUDA
/// code. Parameters without a gradient are skipped. New states have the role kOptimizerState,
/// everything else kTemporary; after the step only states remain.
///
/// Model:  states per parameter: AdamW two of the parameter's type (fused: also an fp32 scalar);
///         SGD none, with momentum one; Adafactor a row and a column of the last two dims, or one
///         tensor for vectors; Lion one; Muon one for a matrix of the layers, AdamW's for the rest.
///         8-bit states have one byte per element and an fp32 factor per block of 256 elements, if
///         the parameter has 4096 elements or more.
/// Errors: InternalError for a form that an optimizer does not have (the plan check refuses it).
/// Source: pytorch/pytorch 2.11 torch/optim/{adam,sgd,_adafactor,_muon}.py;
/// huggingface/transformers 5.17
///         optimization.py (Adafactor); bitsandbytes 0.50.2 bitsandbytes/optim/.
void step(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
          OptimizerState& state);

/// `optimizer.zero_grad(set_to_none=True)`: gradients are released in parameter order.
void zero_grad(Eager& eager, std::span<const Tensor> parameters);

// The optimizers behind `step`; each is one file.

/// How bitsandbytes keeps its states.
struct BitsAndBytes {
  int moments = 2;         ///< AdamW 2, Lion 1.
  bool eight_bit = false;  ///< Otherwise fp32.
  bool paged = false;      ///< Large states in unified memory.
};

/// The form of the states if bitsandbytes steps `plan`; nothing for other optimizers.
[[nodiscard]] std::optional<BitsAndBytes> bitsandbytes_of(const OptimizerPlan& plan);

/// Whether the states of a parameter have 8 bits: small parameters have fp32 states.
[[nodiscard]] bool has_narrow_states(const BitsAndBytes& form, const Tensor& parameter);

/// Elements that share a factor, and entries of a table from 8-bit code to value.
inline constexpr std::int64_t kBitsAndBytesBlock = 256;
inline constexpr std::int64_t kBitsAndBytesCodes = 256;

/// One kernel per parameter; `form` defines the states. Embeddings are treated like other
/// parameters (Trainer requests fp32 states for them).
/// Source: bitsandbytes 0.50.2 bitsandbytes/optim/optimizer.py.
void bitsandbytes_step(Eager& eager, const BitsAndBytes& form, std::span<const Tensor> parameters,
                       OptimizerState& state);

void adamw_step(Eager& eager, OptimizerForm form, std::span<const Tensor> parameters,
                OptimizerState& state);
void adafactor_step(Eager& eager, std::span<const Tensor> parameters, OptimizerState& state);
void adafactor_torch_step(Eager& eager, std::span<const Tensor> parameters, OptimizerState& state);
/// kForeach and kLoop: lion-pytorch. kFused: bitsandbytes Lion with fp32 states; 8-bit forms: its
/// Lion8bit and PagedLion8bit.
void lion_step(Eager& eager, OptimizerForm form, std::span<const Tensor> parameters,
               OptimizerState& state);
/// Source: pytorch/pytorch 2.11 torch/optim/_muon.py.
void muon_step(Eager& eager, std::span<const Tensor> parameters, OptimizerState& state);
void sgd_step(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
              OptimizerState& state);

}  // namespace headroom::ir::torch
