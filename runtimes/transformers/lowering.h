#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// Hugging Face transformers on PyTorch: the modelling code of the family, run eagerly by a plain
/// training loop on one GPU, or on one rank of DDP.
///
/// Model:   the graph's operators are run in order on `torch::Eager`, each expanded as in the
///          library's Python code; local names live as long as in Python.
/// Phases:  load (plain LoRA adapters too), peft (adapters on quantised weights),
/// stepN[.M].forward,
///          .backward, stepN.optimizer, .zero_grad, evaluation, checkpoint-save.
/// Errors:  kInvalidArgument for options this runtime does not have.
/// Source:  huggingface/transformers 5.17.0, pytorch/pytorch 2.11.0.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                        const DeviceTraits& device,
                                        const ModelSetting& setting = {});

}  // namespace headroom::ir::transformers
