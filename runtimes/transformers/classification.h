#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/interpreter.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/model_call.h"

/// Heads that classify sequences or tokens.
namespace headroom::ir::transformers {

/// The labels of a batch: one number per sequence if sequences are classified, in fp32 for a
/// regression; otherwise the ids themselves.
[[nodiscard]] torch::Tensor labels_of(torch::Eager& eager, const ModelSpec& spec,
                                      const torch::Tensor& ids);

/// From the last hidden states to the loss. `head` is the first operator that has not run; the
/// caller holds the last hidden states.
///
/// Model:  if a padding token is known, the last token is searched among the ids. A batch of
///         several sequences needs one.
/// Source: huggingface/transformers 5.17 modeling_layers.py, GenericForSequenceClassification and
///         GenericForTokenClassification; modeling_bert.py, BertForSequenceClassification;
///         loss/loss_utils.py, ForSequenceClassificationLoss and ForTokenClassification.
[[nodiscard]] ModelOutput run_classifier(torch::Eager& eager, Model& model,
                                         Interpreter& interpreter, const Batch& batch, NodeId head);

}  // namespace headroom::ir::transformers
