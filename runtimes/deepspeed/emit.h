#pragma once

#include <string>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::deepspeed {

/// The ds_config.json that does what `plan` says, for the Trainer of transformers and for
/// deepspeed.initialize alike.
///
/// Model:   every key that the plan's memory depends on is written, also where it is DeepSpeed's
///          default; nothing is "auto". Learning rate, betas, epsilon and weight decay, which no
///          byte depends on, are those that transformers' TrainingArguments have, so that both
///          agree. fp16 gets dynamic loss scaling, bf16 none. An optimizer that DeepSpeed cannot
///          make by name (8-bit, Adafactor) is left to the trainer. Ends with a line break.
/// Requires a plan of DeepSpeed that `check_plan` accepts.
/// Source:  deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/config.py, zero/config.py,
///          zero/offload_config.py, swap_tensor/constants.py;
///          huggingface/transformers 5.17.0 src/transformers/training_args.py.
[[nodiscard]] std::string emitted_config(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::deepspeed
