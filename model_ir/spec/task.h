#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// "language", "sequence-classification", "token-classification".
[[nodiscard]] std::string_view name_of(Task task);
[[nodiscard]] std::optional<Task> parse_task(std::string_view name);
[[nodiscard]] std::vector<std::string> task_names();

/// The task of a class of transformers ("BertForSequenceClassification"), if it classifies.
[[nodiscard]] std::optional<Task> task_of_class(std::string_view name);

/// The head that is asked for. What is not said comes from the configuration.
struct AskedHead {
  std::optional<Task> task;
  std::optional<std::int64_t> labels;
  bool images = false;  ///< The whole model of images and text, also where its text part is known.
};

/// A head that classifies, as a family's code builds it.
struct ClassifierForm {
  std::string_view module;  ///< Name of its linear layer.
  bool bias = false;        ///< Whether that layer has a bias.
  bool pools = false;       ///< A pooler of the first token comes before it (BERT).
  bool drops = false;       ///< Dropout comes right before it.
  bool widens = false;      ///< The loss is computed on fp32 logits.
  bool operator==(const ClassifierForm&) const = default;
};

/// The head with which `family` classifies; nothing if its code has none or it is not modelled.
/// Source: huggingface/transformers 5.17 modeling_layers.py, GenericForSequenceClassification and
///         GenericForTokenClassification; modeling_gpt2.py and its like; loss/loss_utils.py.
[[nodiscard]] std::optional<ClassifierForm> classifier_form(Family family, Task task);

/// Name of the module that makes the logits: "lm_head", or the classifier's.
[[nodiscard]] std::string_view head_module(const ModelSpec& model);

/// Replaces the language model's head with the head of `task`.
///
/// Model:   what only the old head had is removed: its matrix and tying, BERT's transform, scaled
///          or capped logits.
/// Errors:  kInvalidArgument if the family has no such head, or labels are fewer than 1; for a
///          recorded model with any other head than the recorded one.
[[nodiscard]] Status set_task(ModelSpec& model, Task task, std::int64_t labels);

}  // namespace headroom::ir
