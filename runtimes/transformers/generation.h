#pragma once

#include <functional>
#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/transformers/forward.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// One call of a model that generates.
using ForwardCall = std::function<ModelOutput(torch::Eager& eager, Model& model, const Batch&)>;

/// Why generation, as far as it is modelled, does not support this; nothing if it does.
[[nodiscard]] std::optional<Error> generation_trouble(const ModelSpec& spec,
                                                      const ParallelPlan& plan);

/// `model.generate(ids, attention_mask=ones, do_sample=False)` with a DynamicCache, in the phases
/// "generation.prefill" (the prompt's forward) and "generation.decode" (one token at a time).
/// Source: huggingface/transformers 5.17 generation/utils.py, GenerationMixin._sample.
/// `call`: `forward`, or `forward` with a wrapper's hooks around it.
void generate(torch::Eager& eager, const Model& model, const ForwardCall& call = forward);

}  // namespace headroom::ir::transformers
