#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_ir/spec/weights/tensor_list.h"

namespace headroom::ir {

/// A parameter that a model's code registers.
struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  friend bool operator==(const ExpectedTensor&, const ExpectedTensor&) = default;
};

/// A tensor that is on both sides, with different shapes.
struct ShapeDifference {
  std::string name;
  std::vector<std::int64_t> expected;
  std::vector<std::int64_t> found;
  friend bool operator==(const ShapeDifference&, const ShapeDifference&) = default;
};

/// How a checkpoint differs from a model. All lists are sorted by name.
struct TensorCheck {
  std::vector<std::string> missing;  ///< Expected, not in the checkpoint.
  std::vector<std::string> extra;    ///< In the checkpoint, not expected.
  std::vector<ShapeDifference> differing;
  friend bool operator==(const TensorCheck&, const TensorCheck&) = default;
};

/// Compares the tensors of a checkpoint with the parameters that the caller expects.
///
/// Shapes:  compared unless the list is an index without shards (`has_shapes` is false).
/// Ignores: types; how packed formats (bitsandbytes, GPTQ) reshape their weights.
[[nodiscard]] TensorCheck check_tensors(const TensorList& list,
                                        const std::vector<ExpectedTensor>& expected);

/// A line for each difference, `limit` of each kind at most; empty if there is none.
[[nodiscard]] std::string to_text(const TensorCheck& check, std::size_t limit = 10);

}  // namespace headroom::ir
