#include "runtimes/interface/synonyms.h"

#include <array>

namespace headroom::ir {
namespace {

// Sources: transformers 5 src/transformers/training_args.py (TrainingArguments, OptimizerNames) and
// modeling_utils.py (attn_implementation); trl/trainer/sft_config.py (max_length, before
// max_seq_length); peft/tuners/lora/config.py; megatron/training/arguments.py;
// deepspeed/runtime/constants.py; vllm/engine/arg_utils.py (tensor_parallel_size, max_model_len).
constexpr std::array kSynonyms = {
    Synonym{.option = "gpus", .name = "num-gpus"}, Synonym{.option = "gpus", .name = "ngpus"},
    Synonym{.option = "gpus", .name = "world-size"},
    Synonym{.option = "micro-batch", .name = "batch"},
    Synonym{.option = "micro-batch", .name = "batch-size"},
    Synonym{.option = "micro-batch", .name = "bs"},
    Synonym{.option = "micro-batch", .name = "per-device-train-batch-size"},
    Synonym{.option = "micro-batch", .name = "micro-batch-size"},
    Synonym{.option = "micro-batch", .name = "train-micro-batch-size-per-gpu"},
    Synonym{.option = "global-batch", .name = "global-batch-size"},
    Synonym{.option = "global-batch", .name = "train-batch-size"},
    Synonym{.option = "accumulation", .name = "gradient-accumulation-steps"},
    Synonym{.option = "accumulation", .name = "grad-accum"},
    Synonym{.option = "seq", .name = "max-seq-length"},
    Synonym{.option = "seq", .name = "max-length"}, Synonym{.option = "seq", .name = "seq-length"},
    Synonym{.option = "seq", .name = "seq-len"},
    Synonym{.option = "seq", .name = "sequence-length"}, Synonym{.option = "seq", .name = "seqlen"},
    Synonym{.option = "seq", .name = "max-seq-len"},
    Synonym{.option = "seq", .name = "max-model-len"},
    Synonym{.option = "seq", .name = "context-length"},
    Synonym{.option = "zero", .name = "zero-stage"},
    Synonym{.option = "lora", .name = "lora-r", .key = "r"},
    Synonym{.option = "lora", .name = "lora-rank", .key = "r"},
    Synonym{.option = "tp", .name = "tensor-parallel-size", .of_a_framework = true},
    Synonym{.option = "tp", .name = "tp-size", .of_a_framework = true},
    Synonym{.option = "pp", .name = "pipeline-parallel-size", .of_a_framework = true},
    Synonym{.option = "pp", .name = "pp-size", .of_a_framework = true},
    Synonym{.option = "clip-norm", .name = "max-grad-norm"},
    Synonym{.option = "clip-norm", .name = "clip-grad"},
    Synonym{.option = "clip-norm", .name = "gradient-clipping"},

    Synonym{.option = "checkpointing", .name = "gradient-checkpointing", .means = "full"},
    Synonym{.option = "recompute", .name = "gradient-checkpointing", .means = "full"},
    Synonym{.option = "checkpointing", .name = "activation-checkpointing"},
    Synonym{.option = "recompute", .name = "activation-checkpointing"},
    Synonym{.option = "recompute", .name = "checkpointing"},
    Synonym{.option = "liger", .name = "use-liger-kernel"},

    Synonym{.option = "precision", .name = "bf16", .means = "bf16"},
    Synonym{.option = "precision", .name = "fp16", .means = "fp16"},
    Synonym{.option = "precision", .name = "fp32", .means = "fp32"},
    Synonym{.option = "precision", .name = "dtype"},
    Synonym{.option = "precision", .name = "torch-dtype"},
    Synonym{.option = "precision", .said = "bfloat16", .means = "bf16"},
    Synonym{.option = "precision", .said = "float16", .means = "fp16"},
    Synonym{.option = "precision", .said = "half", .means = "fp16"},
    Synonym{.option = "precision", .said = "float32", .means = "fp32"},

    Synonym{.option = "attention", .name = "attn-implementation"},
    Synonym{.option = "attention", .said = "flash-attention-2", .means = "flash"},
    Synonym{.option = "attention", .said = "flash-attn-2", .means = "flash"},
    Synonym{.option = "attention", .said = "flash-attn", .means = "flash"},
    Synonym{.option = "attention", .said = "flash2", .means = "flash"},

    // What OptimizerNames calls adamw_torch is torch.optim.AdamW as it is, which is foreach.
    Synonym{.option = "optimizer", .name = "optim"},
    Synonym{.option = "optimizer", .said = "adamw-torch", .means = "adamw"},
    Synonym{.option = "optimizer", .said = "adamw-hf", .means = "adamw"},
    Synonym{.option = "optimizer", .said = "adamw-torch-fused", .means = "adamw-fused"},
    Synonym{.option = "optimizer", .said = "adamw-bnb-8bit", .means = "adamw-8bit"},
    Synonym{.option = "optimizer", .said = "paged-adamw", .means = "paged-adamw-32bit"},
    Synonym{.option = "optimizer", .said = "lion-32bit", .means = "lion"},

    // The scale of adapters changes neither memory nor time.
    Synonym{.option = "lora", .said = "alpha", .ignored = true},
    Synonym{.option = "lora", .said = "lora-alpha", .ignored = true},
    Synonym{.option = "lora", .said = "task-type", .ignored = true},
    Synonym{.option = "lora", .said = "bias=none", .ignored = true},
    Synonym{.option = "lora", .said = "targets=all-linear", .ignored = true},
    Synonym{.option = "lora", .said = "target-modules=all-linear", .ignored = true},
    Synonym{.option = "lora", .said = "N", .means = "r"},
    Synonym{.option = "lora", .said = "lora-rank", .means = "r"},
    Synonym{.option = "lora", .said = "lora-r", .means = "r"},
    Synonym{.option = "lora", .said = "modules-to-save", .means = "save"}};

}  // namespace

std::span<const Synonym> synonyms() {
  return kSynonyms;
}

}  // namespace headroom::ir
