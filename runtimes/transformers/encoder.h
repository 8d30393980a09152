#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/interpreter.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/model_call.h"

namespace headroom::ir::transformers {

/// One call of an encoder: the stem with its token types, the layers, the head and, for a masked
/// language model, a cross entropy over all positions.
/// Source: huggingface/transformers modeling_bert.py, BertForMaskedLM and BertEmbeddings.
[[nodiscard]] ModelOutput forward_masked(torch::Eager& eager, Model& model, const Batch& batch);

/// From the last hidden states to the loss, torch.nn.CrossEntropyLoss of the unchanged logits.
/// `head` is the head's first operator; the caller holds the last hidden states.
[[nodiscard]] ModelOutput run_plain_head(torch::Eager& eager, Model& model,
                                         Interpreter& interpreter, const torch::Tensor& labels,
                                         NodeId head);

}  // namespace headroom::ir::transformers
