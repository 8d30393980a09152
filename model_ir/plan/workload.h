#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/spec/images.h"

namespace headroom::ir {

/// `model.generate` after the steps: prompts of `Workload::sequence` tokens.
struct GenerationPlan {
  std::int64_t new_tokens = 64;
  bool static_cache = false;  ///< StaticCache; otherwise DynamicCache, which grows by copies.
  friend bool operator==(const GenerationPlan&, const GenerationPlan&) = default;
};

/// What a run does, wherever and on however many ranks: training steps, and what comes before and
/// after them.
struct Workload {
  std::int64_t micro_batch = 1;   ///< B
  std::int64_t sequence = 2048;   ///< S
  std::int64_t accumulation = 1;  ///< Micro-batches per optimizer step.
  int steps = 2;                  ///< Optimizer steps that are replayed.
  /// Batches contain padding, which an attention mask marks. Masks without padding, which
  /// transformers detects and drops, are not assumed.
  bool padded_batch = false;
  std::optional<Images> images;  ///< In every sequence; none: text alone.
  bool keep_logits = false;      ///< The output object lives until backward has ended.
  /// True, as in transformers' Trainer: the batch is a loop variable with its own labels, which
  /// lives until the next batch replaces it, and the loss is not divided among micro-batches.
  /// False: the labels are the input ids, which are freed after backward.
  bool keep_batch = false;
  bool evaluation = false;       ///< One forward pass in evaluation mode after the steps.
  bool checkpoint_save = false;  ///< A checkpoint is saved after the steps.
  bool resume = false;           ///< The run begins with a checkpoint that has optimizer states.
  std::optional<GenerationPlan> generation;
  friend bool operator==(const Workload&, const Workload&) = default;
};

}  // namespace headroom::ir
