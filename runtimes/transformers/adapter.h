#pragma once

#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/graph/op.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// The error if `lora` adapts nothing, because no linear layer has a name that it targets.
[[nodiscard]] std::optional<Error> missing_targets(const ModelSpec& spec, const Graph& graph,
                                                   const LoraPlan& lora);

/// A frozen linear layer without an adapter: plain, Conv1D or quantised.
[[nodiscard]] torch::Tensor frozen_linear(torch::Eager& eager, const Model& model, const Op& op,
                                          const torch::Tensor& input);

/// The same with its LoRA branch, as PEFT runs it.
/// Source: huggingface/peft 0.21, src/peft/tuners/lora/layer.py, Linear.forward, and bnb.py,
///         Linear4bit.forward and Linear8bitLt.forward.
[[nodiscard]] torch::Tensor adapted_linear(torch::Eager& eager, const Model& model, const Op& op,
                                           const torch::Tensor& input);

}  // namespace headroom::ir::transformers
