#pragma once

#include <set>

#include "model_ir/graph/graph.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/transformers/model.h"

/// How from_pretrained loads a model whose linear layers are quantised.
namespace headroom::ir::transformers {

/// Weights that bitsandbytes quantises: linear layers except the head and those that the model
/// keeps in fp32 (_keep_in_fp32_modules). Empty without quantisation.
/// Source: huggingface/transformers integrations/bitsandbytes.py, replace_with_bnb_linear;
///         quantizers/base.py, get_modules_to_not_convert.
[[nodiscard]] std::set<TensorId> quantised_weights(const ModelSpec& spec, const ParallelPlan& plan,
                                                   const Graph& graph);

/// The weight comes to the device whole and is quantised there: to 4 bits from its own type, to 8
/// bits from fp16. A Conv1D's weight is transposed, because the layer becomes a linear one.
/// Returns the codes.
torch::Tensor load_quantised(torch::Eager& eager, Model& model, TensorId id);

}  // namespace headroom::ir::transformers
