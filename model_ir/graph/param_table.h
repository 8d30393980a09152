#pragma once

#include <vector>

#include "model_ir/graph/model_parameter.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// Every parameter of a model, in the order of `model.named_parameters()`: the order in which the
/// constructors register them. Optimizer states and gradient buckets have the same order.
///
/// Model:   fused experts are tensors [E, out, in] (gpt-oss [E, in, out]), as the library holds
///          them in memory; a tied head has no parameter of its own. Layers of an encoder come
///          first: encoder 0..E-1, decoder E..E+L-1.
/// Ignores: buffers (rotary tables, correction biases, position ids).
/// Source:  huggingface/transformers 5.17.0 (`kModules`: 4.57.1),
///          src/transformers/models/*/modeling_*.py.
[[nodiscard]] std::vector<ModelParameter> parameter_table(
    const ModelSpec& model, ExpertWeights experts = ExpertWeights::kFused);

}  // namespace headroom::ir
