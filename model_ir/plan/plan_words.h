#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/pipeline_schedule.h"

namespace headroom::ir {

/// A value and its name, in options and in plan files alike.
template <typename Value>
struct Word {
  std::string_view text;
  Value value;
};

[[nodiscard]] std::span<const Word<Precision>> precision_words();
/// The combinations of `OptimizerPlan` that some framework offers.
[[nodiscard]] std::span<const Word<OptimizerPlan>> optimizer_words();
[[nodiscard]] std::span<const Word<AttentionKind>> attention_words();
[[nodiscard]] std::span<const Word<LossKind>> loss_words();
/// Schedules that torchtitan has: "zb-h1" is its InterleavedZeroBubble.
[[nodiscard]] std::span<const Word<PipelineKind>> schedule_words();
/// Types that FSDP's mixed-precision policy may name.
[[nodiscard]] std::span<const Word<DType>> policy_dtype_words();

/// The word for `value`; "?" if the list has none.
template <typename Value>
[[nodiscard]] std::string_view word_of(std::span<const Word<Value>> words, const Value& value) {
  for (const Word<Value>& word : words) {
    if (word.value == value) {
      return word.text;
    }
  }
  return "?";
}

template <typename Value>
[[nodiscard]] std::vector<std::string> texts_of(std::span<const Word<Value>> words) {
  std::vector<std::string> texts;
  for (const Word<Value>& word : words) {
    texts.emplace_back(word.text);
  }
  return texts;
}

/// `known`, separated by commas, for messages.
[[nodiscard]] std::string join(std::span<const std::string> known);
/// "use 'full'" if a known word is close to `text`, otherwise nothing.
[[nodiscard]] std::string suggestion(std::string_view text, std::span<const std::string> known);

/// The value that `text` names.
///
/// Errors:  kInvalidArgument naming `key`, all words, and the closest one.
template <typename Value>
[[nodiscard]] Result<Value> parse_word(std::span<const Word<Value>> words, std::string_view key,
                                       std::string_view text) {
  for (const Word<Value>& word : words) {
    if (word.text == text) {
      return word.value;
    }
  }
  const std::vector<std::string> known = texts_of(words);
  return Error::invalid_argument(key, text, "one of " + join(known), suggestion(text, known));
}

struct Checkpointing {
  Recompute recompute = Recompute::kNone;
  std::int64_t every = 1;  ///< Every k-th layer.
  std::int64_t first = 0;  ///< The first N layers; 0: all of them.
  friend bool operator==(const Checkpointing&, const Checkpointing&) = default;
};
/// "none", "full", "full-reentrant", "every-4", "first-8": the kind of recomputation and its layers
/// in one word.
[[nodiscard]] std::string checkpointing_text(const Checkpointing& checkpointing);
[[nodiscard]] Checkpointing checkpointing_of(const ParallelPlan& plan);
/// Errors:  kInvalidArgument as `parse_word`.
[[nodiscard]] Result<Checkpointing> parse_checkpointing(std::string_view key,
                                                        std::string_view text);

}  // namespace headroom::ir
