#pragma once

#include <optional>
#include <set>
#include <string>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// The error of adapters on layers of a recorded model that PEFT refuses, or whose forward pass it
/// breaks. `targets`: the names of the modules that are adapted.
/// Source: huggingface/peft 0.21 src/peft/tuners/tuners_utils.py,
/// _check_lora_target_modules_mamba; transformers 5.17 modeling_llama4.py, Llama4Router.
[[nodiscard]] std::optional<Error> refused_targets(const ModelSpec& spec, const LoraPlan& lora,
                                                   const std::set<std::string>& targets);

}  // namespace headroom::ir::transformers
