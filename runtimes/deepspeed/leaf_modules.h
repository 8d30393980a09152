#pragma once

#include <string_view>

#include "model_ir/spec/model_spec.h"

namespace headroom::ir::deepspeed {

/// The class that transformers has for a family's blocks of experts; empty if it has none.
/// Source: huggingface/transformers 5.17.0 src/transformers/models/*/modeling_*.py.
[[nodiscard]] std::string_view experts_class(Family family);

/// Whether `type` is the class of a block of experts.
[[nodiscard]] bool is_experts_class(std::string_view type);

/// Whether DeepSpeed treats blocks of the class `type` as leaf modules by default.
[[nodiscard]] bool is_default_leaf_class(std::string_view type);

/// Whether DeepSpeed treats a family's blocks of experts as leaf modules by default.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/leaf_module_config.py,
/// DEFAULT_LEAF_MODULE_CLASSES.
[[nodiscard]] bool is_default_leaf(Family family);

}  // namespace headroom::ir::deepspeed
