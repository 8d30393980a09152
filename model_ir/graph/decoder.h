#pragma once

#include <cstdint>

#include "model_ir/graph/graph.h"
#include "model_ir/graph/model_parameter.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// The forward pass of a model, loss included, on one micro-batch.
///
/// Model:   all parameters first, in the order of `parameter_table`; then the operators in the
///          order in which the library's Python runs them. Dropout is present only if its
///          probability is above 0. Inputs are input_ids and labels [B,S]; an encoder-decoder model
///          has decoder_input_ids [B,S] too. Layers of an encoder come first: encoder 0..E-1,
///          decoder E..E+L-1.
/// Shapes:  activations of the residual stream [B,S,H]; queries [B,S,A*D], keys and values
///          [B,S,K*D] before and after rotation; logits [B,S,V]; the loss has no dims.
/// Modules: an operator belongs to the module whose `forward` runs it; OPT's MLP is part of the
///          layer itself, BERT's and BLOOM's residual additions are part of the modules.
///          Where experts are modules, the shared one runs after them; the parameters of kExperts
///          are then gate, up and down of each.
/// Requires sizes within the bounds of the readers and B, S >= 1.
/// Source:  huggingface/transformers 5.17.0 (`kModules`: 4.57.1),
///          src/transformers/models/*/modeling_*.py.
[[nodiscard]] Graph build_graph(const ModelSpec& model, const BatchShape& shape,
                                ExpertWeights experts = ExpertWeights::kFused);

}  // namespace headroom::ir
