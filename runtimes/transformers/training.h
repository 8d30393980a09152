#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// A plain training loop: load; for each step, forward and backward of the micro-batches, the
/// optimizer's step and zero_grad; at the end, if requested, one evaluation.
void train(torch::Eager& eager, const ModelSource& source);

}  // namespace headroom::ir::transformers
