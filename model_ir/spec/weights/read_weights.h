#pragma once

#include <string>

#include "model_ir/base/result.h"
#include "model_ir/spec/weights/tensor_list.h"

namespace headroom::ir {

/// Reads a .safetensors file, a model.safetensors.index.json, a .gguf file, or a folder with an
/// index, a model.safetensors or its shards. The content of a file decides which it is.
///
/// Errors:  those of `read_safetensors`, `read_safetensors_index`, `read_safetensors_shards` and
///          `read_gguf`; kInvalidInput for a file that is none of them.
[[nodiscard]] Result<TensorList> read_weights(const std::string& path);

/// Whether a folder holds an index, a model.safetensors or shards.
[[nodiscard]] bool holds_weights(const std::string& folder);

}  // namespace headroom::ir
