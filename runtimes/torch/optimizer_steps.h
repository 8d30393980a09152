#pragma once

#include <span>

#include "runtimes/torch/optimizer.h"

/// The optimizers behind `step`; each is one file.
namespace headroom::ir::torch {

/// How bitsandbytes keeps its states.
struct BitsAndBytes {
  int moments = 2;         ///< AdamW 2, Lion 1.
  bool eight_bit = false;  ///< Otherwise fp32.
  bool paged = false;      ///< Large states in unified memory.
};

/// One kernel per parameter; states as `form` says. Embeddings are treated like any parameter
/// (Trainer asks for fp32 states for them).
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
