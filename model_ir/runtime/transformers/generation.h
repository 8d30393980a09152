#pragma once

#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/runtime/transformers/model.h"

namespace headroom::ir::transformers {

/// Why generation, as far as it is modelled, cannot run this; nothing if it can.
[[nodiscard]] std::optional<Error> generation_trouble(const ModelSpec& spec,
                                                      const ParallelPlan& plan);

/// `model.generate(ids, attention_mask=ones, do_sample=False)` with a DynamicCache, in the phases
/// "generation.prefill" (the prompt's forward) and "generation.decode" (a token at a time).
/// Source: huggingface/transformers 5.17 generation/utils.py, GenerationMixin._sample.
/// Ignores: what is made and gone again between two forwards (positions, stopping criteria).
void generate(torch::Eager& eager, const Model& model);

}  // namespace headroom::ir::transformers
