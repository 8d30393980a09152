#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/base/error.h"
#include "model_ir/graph/graph.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// All parameters with the modules that read them, in the order of the module tree: a tied table
/// once for each of its modules, the heads last.
[[nodiscard]] std::vector<std::pair<TensorId, ParameterReader>> reading_modules(const Model& model);

/// Whether the module of `parameter` is trained in full and thus has no adapter.
/// Source: huggingface/peft 0.21 src/peft/tuners/tuners_utils.py, check_target_module_exists.
[[nodiscard]] bool is_saved_module(const ModelSpec& spec, const LoraPlan& lora,
                                   std::string_view parameter);

/// Whether PEFT copies the module of `parameter` to train it in full.
/// Source: huggingface/peft 0.21 src/peft/utils/other.py, _set_trainable.
[[nodiscard]] bool is_copied_module(const ModelSpec& spec, const LoraPlan& lora,
                                    std::string_view parameter);

/// Why `lora.modules_to_save` is not supported: it has a name with which no module with parameters
/// ends, or the name of a whole block.
[[nodiscard]] std::optional<Error> missing_saved_modules(const ModelSpec& spec, const Graph& graph,
                                                         const LoraPlan& lora);

/// Copies the modules that `lora.modules_to_save` names, in the order of the module tree; the
/// originals stay, frozen. A tied table is copied twice if both of its modules are named.
/// Source: huggingface/peft 0.21 src/peft/utils/other.py, _set_trainable, ModulesToSaveWrapper.
void add_saved_modules(torch::Eager& eager, Model& model, const LoraPlan& lora);

/// The same for the head of a model that labels tokens, which PEFT copies after adding its
/// adapters; a head that labels sequences is among the modules above.
/// Source: huggingface/peft 0.21 src/peft/peft_model.py, PeftModelForTokenClassification and
///         PeftModelForSequenceClassification.
void add_token_head(torch::Eager& eager, Model& model);

}  // namespace headroom::ir::transformers
