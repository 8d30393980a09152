#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir::transformers {

/// Where recorded code computes logits and a causal language model's loss.
struct RecordedLoss {
  std::uint32_t head = 0;  ///< The instruction of the output layer.
  std::uint32_t last = 0;  ///< The instruction of the loss itself.
};

/// The place of the output layer and of ForCausalLMLoss right behind it; nothing if the code does
/// something else with the logits, or computes another loss.
/// Source: huggingface/transformers 5.17 loss/loss_utils.py.
[[nodiscard]] std::optional<RecordedLoss> find_causal_loss(const RecordedCode& code);

}  // namespace headroom::ir::transformers
