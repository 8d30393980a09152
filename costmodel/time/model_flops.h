#pragma once

#include <cstdint>

#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// Which keys a query is counted with in causal attention.
enum class AttentionCount : std::uint8_t {
  kAllKeys,   ///< PaLM's and Korthikanti's way: masked ones too.
  kSeenKeys,  ///< Half of them.
};

/// Model FLOPs of one token, forward and backward, nothing run again: 6 for every parameter that
/// multiplies it (experts: those it is sent to; the head also where it is tied; no lookups), and 12
/// A D for every key of every layer (a window's keys where there is one). A layer of multi-token
/// prediction is one more layer, with a projection of its own and the head once more.
///
/// Units:   FLOPs. `sequence` in tokens.
/// Source:  Chowdhery et al. 2022, "PaLM", arXiv:2204.02311, appendix B (6N + 12 L H Q T);
///          Korthikanti et al. 2022, arXiv:2205.05198, appendix A, counts alike; DeepSeek-AI 2024,
///          arXiv:2412.19437, section 2.2, multi-token prediction.
[[nodiscard]] double model_flops_per_token(const ir::ModelSpec& model, std::int64_t sequence,
                                           AttentionCount count = AttentionCount::kAllKeys,
                                           std::int64_t mtp_layers = 0);

}  // namespace headroom::cost
