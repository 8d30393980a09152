#pragma once

#include <cstdint>

#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// How many keys count for a query in causal attention.
enum class AttentionCount : std::uint8_t {
  kAllKeys,   ///< All keys, masked ones too, as PaLM and Korthikanti et al. count.
  kSeenKeys,  ///< Half of the keys.
};

/// Model FLOPs of one token, forward and backward, without recomputation: 6 per parameter that
/// multiplies it (experts: only the chosen ones; the head even if it is tied; no lookups), and 12 A
/// D per key of every layer (with a window: only its keys). Each layer of multi-token prediction
/// counts as one more layer with its own projection and one more head. A token of a transcript has
/// its share of the encoder, which sees all positions of a spectrogram.
///
/// Units:   FLOPs. `sequence` in tokens.
/// Source:  Chowdhery et al. 2022, "PaLM", arXiv:2204.02311, appendix B (6N + 12 L H Q T);
///          Korthikanti et al. 2022, arXiv:2205.05198, appendix A, counts alike; DeepSeek-AI 2024,
///          arXiv:2412.19437, section 2.2, multi-token prediction.
[[nodiscard]] double model_flops_per_token(const ir::ModelSpec& model, std::int64_t sequence,
                                           AttentionCount count = AttentionCount::kAllKeys,
                                           std::int64_t mtp_layers = 0);

/// The part of `model_flops_per_token` that computes gradients of weights: 2 per parameter that
/// multiplies a token. Frozen weights need none; their backward only passes gradients on.
///
/// Units:   FLOPs.
/// Source:  Hu et al. 2021, "LoRA", arXiv:2106.09685, section 4.2: frozen parameters get no
///          gradients.
[[nodiscard]] double weight_gradient_flops_per_token(const ir::ModelSpec& model,
                                                     std::int64_t sequence);

}  // namespace headroom::cost
