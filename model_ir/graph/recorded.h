#pragma once

#include "model_ir/graph/graph.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// The part of a recorded model that graphs have, too: its parameters in order, so that parameter i
/// has TensorId i, and its linear layers as operators, with the weight and the bias. The order in
/// which they run, and everything between them, is in the recording. Requires that `model` has a
/// recording.
[[nodiscard]] Graph recorded_graph(const ModelSpec& model, const BatchShape& shape);

}  // namespace headroom::ir
