#pragma once

#include <string>

#include "model_ir/base/result.h"
#include "model_ir/spec/model_spec.h"
#include "model_ir/spec/weights/gguf.h"

namespace headroom::ir {

/// The model in a GGUF file, as its Hugging Face configuration would describe it.
///
/// Model:   general.architecture picks the family; dimensions come from its metadata, the
///          vocabulary from the rows of token_embd.weight, biases and QK norms from the tensors that are
///          there, tied embeddings from the absence of output.weight. The result is read as a
///          config.json, so that defaults and checks are the same.
/// Errors:  kInvalidInput for an unknown architecture (with the closest ones), a missing key, sizes
///          that differ from layer to layer, one part of a split file, and everything that
///          `parse_hf_config` refuses.
/// Ignores: quantisation (see the tensor list); rotary scaling; multi-token prediction layers.
/// Source:  ggml-org/llama.cpp gguf-py/gguf/constants.py (keys), convert_hf_to_gguf.py (which
///          configuration key each comes from).
[[nodiscard]] Result<ModelSpec> model_of_gguf(const GgufFile& gguf);

/// The config.json text that `model_of_gguf` reads.
///
/// Errors:  as `model_of_gguf`, without those of `parse_hf_config`.
[[nodiscard]] Result<std::string> config_of_gguf(const GgufFile& gguf);

}  // namespace headroom::ir
