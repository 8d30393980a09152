#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/model_call.h"

namespace headroom::ir::transformers {

/// The next micro-batch of a loop: ids, and their labels (`labels_of`).
[[nodiscard]] Batch make_batch(torch::Eager& eager, const Model& model);

/// One call of the model.
[[nodiscard]] ModelOutput forward(torch::Eager& eager, Model& model, const Batch& batch);

}  // namespace headroom::ir::transformers
