#pragma once

#include <cstddef>
#include <string>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/weights/tensor_list.h"

namespace headroom::ir {

/// Bounds on the JSON of a header and of an index.
inline constexpr JsonLimits kSafetensorsLimits{.depth = 8, .values = std::size_t{1} << 23};

/// Reads the header of one safetensors file.
///
/// Model:   8 bytes length N (little endian), N bytes JSON, then data: for each tensor its dtype,
///          shape and [begin, end) in the data. The data has no holes and no overlaps and ends with
///          the file. The file may be cut off after its header, because sizes need no data; a note
///          says so.
/// Errors:  kEnvironment if the file cannot be read; kInvalidInput, with the byte offset or the
///          tensor as JSON pointer, for everything that breaks the rules above, and for empty
///          tensors, which a checkpoint saved from unfinished shards contains.
/// Source:  huggingface/safetensors README.md, "Format" (header of at most 100 MB).
[[nodiscard]] Result<TensorList> read_safetensors(const std::string& path);

/// Reads the headers of the shards NAME-00001-of-0000N.safetensors in a folder without index. If
/// the folder has several sets, the one called "model" counts.
///
/// Errors:  as `read_safetensors`; kInvalidInput if a shard of the set is missing, or a tensor is
/// in
///          two of them; kEnvironment if the folder holds no such set or cannot be read.
[[nodiscard]] Result<TensorList> read_safetensors_shards(const std::string& folder);

/// Reads a model.safetensors.index.json, and the headers of its shards if all of them are in the
/// same folder.
///
/// Model:   {"metadata": {"total_size": bytes}, "weight_map": {tensor: file}}. Without all shards
///          the list has names and files only (`has_shapes` is false). If `total_size` differs from
///          the sum of the shards, the list gets a note: transformers counts some tied tensors
///          twice.
/// Errors:  as `read_safetensors`; kInvalidInput for a `weight_map` that is missing, names files
///          outside the folder, or disagrees with the shards on which tensors there are.
/// Source:  huggingface/huggingface_hub, serialization/_base.py (StateDictSplit).
[[nodiscard]] Result<TensorList> read_safetensors_index(const std::string& path);

}  // namespace headroom::ir
