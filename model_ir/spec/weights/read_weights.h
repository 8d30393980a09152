#pragma once

#include <string>

#include "model_ir/base/result.h"
#include "model_ir/spec/weights/tensor_list.h"

namespace headroom::ir {

/// Reads a .safetensors file, a model.safetensors.index.json or a .gguf file. The content decides
/// which.
///
/// Errors:  those of `read_safetensors`, `read_safetensors_index` and `read_gguf`; kInvalidInput
///          for a file that is none of them.
[[nodiscard]] Result<TensorList> read_weights(const std::string& path);

}  // namespace headroom::ir
