#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cli {

/// Compares the headers of a weight file, or of an index and its shards, with the model that the
/// configuration beside it describes.
///
/// Model:   a tensor that has another shape in the file is an error. Names that only one side has
///          are notes. They are not even that if the total number of elements agrees, because then
///          the file only uses other names: experts one by one, or a base model without prefix. The
///          tensors of a quantised checkpoint have other names and shapes, so only the headers
///          themselves are checked.
/// Errors:  those of `ir::read_weights`; kInvalidInput with the tensor and both shapes.
[[nodiscard]] Result<std::vector<std::string>> check_weights(const std::string& path,
                                                             const ir::ModelSpec& model,
                                                             bool quantised);

}  // namespace headroom::cli
