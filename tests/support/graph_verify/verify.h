#pragma once

#include <string>
#include <vector>

#include "model_ir/graph/graph.h"

namespace headroom::ir {

/// Everything that is wrong with a graph, in words; empty for a graph that is sound.
///
/// Model:   tensors: extents positive; activations have one producer, before their readers, and at
///          least one reader unless they are the loss; inputs are read; parameters have names of
///          their own and are read unless they are registered as unused.
///          Operators: number and shapes of inputs, parameters and outputs as `OpKind` says; a
///          parameter belongs to the operator's layer (T5's bias table is shared).
///          Layers: numbered from 0, in order, each a run of operators; only its output leaves a
///          layer. Modules: at most one run of each in a layer; the head is in none.
/// Complexity: linear in operators and tensors.
[[nodiscard]] std::vector<std::string> verify(const Graph& graph);

}  // namespace headroom::ir
