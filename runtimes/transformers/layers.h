#pragma once

#include <memory>

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/interpreter.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// Whether layers are recomputed in backward.
[[nodiscard]] bool recomputes(const Model& model);
/// gradient_checkpointing_enable() of a PEFT model calls enable_input_require_grads(): a hook on
/// the output of each module that embeds the inputs.
void require_gradient(const Model& model, const torch::Tensor& rows);

/// Whether hooks cast the tables that layers receive.
[[nodiscard]] bool casts_tables(const Model& model, const Shared& shared);

/// All layers of a model with one stack, recomputed or not. Checkpointed layers keep `interpreter`,
/// and with it the tensors that all layers share, until backward has recomputed them.
[[nodiscard]] torch::Tensor run_layers(torch::Eager& eager, Model& model,
                                       const std::shared_ptr<Interpreter>& interpreter,
                                       torch::Tensor hidden);

}  // namespace headroom::ir::transformers
