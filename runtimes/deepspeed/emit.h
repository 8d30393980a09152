#pragma once

#include <string>
#include <string_view>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::deepspeed {

/// The ds_config.json for `plan`. It works for the Trainer of transformers and for
/// deepspeed.initialize.
///
/// Model:   every key that the plan's memory depends on is written, even if it has DeepSpeed's
///          default; nothing is "auto". No byte depends on learning rate, betas, epsilon and weight
///          decay; they have the defaults of transformers' TrainingArguments, so that both agree.
///          fp16 gets dynamic loss scaling, bf16 gets none. An optimizer that DeepSpeed cannot make
///          by name (8-bit, Adafactor) is left to the trainer. The text ends with a line break.
/// Requires: a DeepSpeed plan that `check_plan` accepts.
/// Source:  deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/config.py, zero/config.py,
///          zero/offload_config.py, swap_tensor/constants.py;
///          huggingface/transformers 5.17.0 src/transformers/training_args.py.
[[nodiscard]] std::string emitted_config(const ModelSpec& model, const ParallelPlan& plan);

/// Whether that file says what an option of `fit` says; the others belong to the program and its
/// environment, and so does an optimizer that DeepSpeed cannot make by name.
[[nodiscard]] bool is_in_file(const ParallelPlan& plan, std::string_view option);

}  // namespace headroom::ir::deepspeed
