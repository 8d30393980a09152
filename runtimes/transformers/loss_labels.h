#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// What every loss makes of the labels.
namespace headroom::ir::transformers {

/// The labels moved by one: padded by a token and cut, which copies several sequences only.
struct ShiftedLabels {
  torch::Tensor labels;  ///< [B, S]
  torch::Tensor padded;  ///< [B, S+1]
};
[[nodiscard]] ShiftedLabels shift_labels(torch::Eager& eager, const torch::Tensor& ids);

/// (labels != ignored).sum(): the sum reads a copy of the mask in its own type.
struct LabelCount {
  torch::Tensor mask;
  torch::Tensor count;
};
[[nodiscard]] LabelCount count_labels(torch::Eager& eager, const torch::Shape& shape);

}  // namespace headroom::ir::transformers
