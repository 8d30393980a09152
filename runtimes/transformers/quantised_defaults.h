#pragma once

#include <string>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/runtime.h"

/// What the libraries around adapters and quantised weights do unless told otherwise.
namespace headroom::ir::transformers {

/// Gradient checkpointing, which PEFT's preparation of quantised weights switches on.
/// Source: huggingface/peft 0.21 src/peft/utils/other.py, prepare_model_for_kbit_training
///         (use_gradient_checkpointing=True); huggingface/trl trl/trainer/sft_config.py
///         (gradient_checkpointing=True) and huggingface/transformers 5.17
///         modeling_utils.py, gradient_checkpointing_enable (use_reentrant=False).
[[nodiscard]] UsualRecomputation recomputation_of_prepared(const ParallelPlan& plan);

/// Whether quantised weights are prepared for training and run without autocast. PEFT's preparation
/// casts all other weights to fp32, so that attention gets fp32 queries and keys, which no fused
/// kernel takes. The recipes of QLoRA, PEFT and TRL train with bf16=True, which is autocast.
/// Source: huggingface/peft src/peft/utils/other.py, prepare_model_for_kbit_training;
///         artidoro/qlora qlora.py; huggingface/trl trl/trainer/sft_config.py, bf16.
[[nodiscard]] bool needs_autocast(const ParallelPlan& plan);

/// What a user who asks for quantised weights should know: which weights stay in 16 bits.
[[nodiscard]] std::vector<std::string> quantised_notes(const ModelSpec& model,
                                                       const ParallelPlan& plan);

/// What transformers' and TRL's trainers set for the training of adapters; nothing for other plans,
/// for which people write loops of their own.
/// Source: huggingface/transformers 5.17 training_args.py (per_device_train_batch_size=8,
///         max_grad_norm=1.0, gradient_checkpointing=False); huggingface/trl 1.x
///         trl/trainer/base_config.py (gradient_checkpointing=True), sft_config.py
///         (max_length=1024).
[[nodiscard]] std::vector<TrainerDefaults> adapter_trainers(const ParallelPlan& plan);

}  // namespace headroom::ir::transformers
