#pragma once

#include <string_view>

#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// The class of transformers that makes a model with its head.
///
/// Source: huggingface/transformers 5.17.0, src/transformers/models/auto/modeling_auto.py.
[[nodiscard]] std::string_view auto_class(const ModelSpec& model);

}  // namespace headroom::ir
