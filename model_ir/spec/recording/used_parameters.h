#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {

/// The parameters and layers with which the first variant of a recording computes.
struct RecordedUse {
  /// The elements of each parameter that multiply one token: none where the code does not run (a
  /// tower for images in a batch of text), and k of n where a router chooses k of n experts.
  std::vector<std::int64_t> elements;
  std::int64_t attending_layers = 0;  ///< Layers with attention over the sequence.
  std::int64_t fused_experts = 0;     ///< Elements of experts that are one parameter of a layer.
};

/// Model:   experts are modules of a list, parameters of modules whose path names them, or stacks
/// of
///          matrices, as many as the layer's router has scores. k is the number that the last topk
///          of the layer takes. The first dimension of a parameter is the number of experts, or a
///          multiple of it.
///          Layers attend if they call scaled_dot_product_attention; all do if none does, because
///          eager attention has no operator of its own.
[[nodiscard]] RecordedUse use_of(const Recording& recording);

}  // namespace headroom::ir
