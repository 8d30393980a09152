#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/interpreter.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/model_call.h"

/// Heads that classify sequences or tokens.
namespace headroom::ir::transformers {

/// What a batch is labelled with: a number for each sequence where sequences are classified, in
/// fp32 for a regression, else the ids themselves.
[[nodiscard]] torch::Tensor labels_of(torch::Eager& eager, const ModelSpec& spec,
                                      const torch::Tensor& ids);

/// From the last hidden states to the loss. `head` is the first operator that has not run; who
/// calls holds the last hidden states.
///
/// Model:  the last token is looked for among the ids if a padding token is known, which several
///         sequences need.
/// Source: huggingface/transformers 5.17 modeling_layers.py, GenericForSequenceClassification and
///         GenericForTokenClassification; modeling_bert.py, BertForSequenceClassification;
///         loss/loss_utils.py, ForSequenceClassificationLoss and ForTokenClassification.
[[nodiscard]] ModelOutput run_classifier(torch::Eager& eager, Model& model,
                                         Interpreter& interpreter, const Batch& batch, NodeId head);

}  // namespace headroom::ir::transformers
