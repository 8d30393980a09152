#pragma once

#include <functional>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// Runs the recorded constructors, which make the model's parameters and buffers. `created`, if
/// set, receives the parameters of each module when its constructor has made them, and the only
/// reference to their memory is the model's then. Requires that `model.recorded` is set.
void run_constructors(torch::Eager& eager, Model& model,
                      const std::function<void(const torch::Tensor&)>& created);

}  // namespace headroom::ir::transformers
