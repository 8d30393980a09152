#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// The labels as every loss prepares them.
namespace headroom::ir::transformers {

/// The labels shifted by one: padded by one token and cut; with several sequences this copies.
struct ShiftedLabels {
  torch::Tensor labels;  ///< [B, S]
  torch::Tensor padded;  ///< [B, S+1]
};
[[nodiscard]] ShiftedLabels shift_labels(torch::Eager& eager, const torch::Tensor& ids);

/// (labels != ignored).sum(): the sum reads a copy of the mask in its result's type.
struct LabelCount {
  torch::Tensor mask;
  torch::Tensor count;
};
[[nodiscard]] LabelCount count_labels(torch::Eager& eager, const torch::Shape& shape);

}  // namespace headroom::ir::transformers
