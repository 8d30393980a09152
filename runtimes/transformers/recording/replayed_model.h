#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "model_ir/base/error.h"
#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/model_call.h"

namespace headroom::ir::transformers {

/// The error for a plan that the model's recording cannot answer: a precision or attention that
/// was not recorded, sizes for which it does not hold, options that change the model's code.
[[nodiscard]] std::optional<Error> recording_trouble(const ModelSpec& spec,
                                                     const ParallelPlan& plan);

/// Builds the model as its recorded constructors do. `created` receives each parameter.
[[nodiscard]] Model load_recorded(torch::Eager& eager, const ModelSource& source,
                                  const std::function<void(const torch::Tensor&)>& created);

/// The model's inputs besides the ids [B, S]: images, spectrograms, labels that are not the ids.
/// Labels of tokens are the ids themselves, as elsewhere.
[[nodiscard]] std::vector<torch::Tensor> recorded_inputs(torch::Eager& eager, const Model& model,
                                                         const torch::Tensor& ids);

/// One call of a recorded model.
[[nodiscard]] ModelOutput forward_recorded(torch::Eager& eager, Model& model, const Batch& batch);

}  // namespace headroom::ir::transformers
