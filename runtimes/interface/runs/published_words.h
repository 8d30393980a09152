#pragma once

#include <optional>
#include <string_view>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

// The words of published rows that follow a rule and that several frameworks share. The functions
// return nothing for a word that is not listed; they do not guess.

/// Hugging Face `model_type` of an architecture whose configuration has Llama's keys.
[[nodiscard]] std::optional<std::string_view> published_model_type(std::string_view architecture);
/// The transformers class with the head that an architecture names; none: a language model.
[[nodiscard]] std::optional<std::string_view> published_class(std::string_view architecture);
[[nodiscard]] std::optional<Precision> published_precision(std::string_view words);
[[nodiscard]] std::optional<OptimizerPlan> published_optimizer(std::string_view words);
[[nodiscard]] std::optional<Recompute> published_checkpointing(std::string_view words);
[[nodiscard]] std::optional<AttentionKind> published_attention(std::string_view words);

}  // namespace headroom::ir
