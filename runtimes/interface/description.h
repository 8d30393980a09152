#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/plan/parallel_plan.h"

/// Pieces of the line that describes a plan (`Runtime::describe`). Each is empty or begins with a
/// comma; the words that follow the framework's name begin with a space.
namespace headroom::ir {

/// Adds `word` to a list of words if it is `shown`: " zero=3, offload=all".
void add_word(std::string& text, std::string_view word, bool shown = true);
/// Adds "NAME=VALUE" to such a list if it is `shown`.
void add_degree(std::string& text, std::string_view name, std::int64_t value, bool shown);

/// Three significant digits: "0.25".
[[nodiscard]] std::string short_number(double value);

/// The precision; empty for bf16 arithmetic with an fp32 copy of the parameters.
[[nodiscard]] std::string precision_words_of(const ParallelPlan& plan);
/// The optimizer; empty for AdamW with fp32 states.
[[nodiscard]] std::string optimizer_words_of(const ParallelPlan& plan);
/// Attention, loss and Liger; empty for sdpa and the kernels and loss of the model itself.
[[nodiscard]] std::string kernel_words_of(const ParallelPlan& plan);

/// ", micro-batch 2, 8 per step, ": sequences of a forward pass, and passes per optimizer step.
[[nodiscard]] std::string batch_words(std::int64_t sequences, std::int64_t passes);

/// Adapters, optimizer, kernels, micro-batches and recomputation of a framework that recomputes
/// whole layers or nothing.
[[nodiscard]] std::string training_words_of(const ParallelPlan& plan);

}  // namespace headroom::ir
