#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cli {

/// Compares the headers of a weight file, or of an index with its shards, with the model that the
/// configuration beside it describes.
///
/// Model:   a tensor of both with another shape is an error. Names that only one side has are notes
///          unless the elements add up, for then the file merely calls its tensors otherwise:
///          experts one by one, a base model without prefix.
/// Errors:  those of `ir::read_weights`; kInvalidInput naming the tensor and both shapes.
[[nodiscard]] Result<std::vector<std::string>> check_weights(const std::string& path,
                                                             const ir::ModelSpec& model);

}  // namespace headroom::cli
