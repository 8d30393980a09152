#pragma once

#include <cstdint>

#include "model_ir/graph/op.h"
#include "model_ir/graph/tensor.h"

namespace headroom::ir {

/// What a parameter is to the operator that reads it.
enum class ParameterPart : std::uint8_t { kWeight, kBias };

/// How a mixture holds the weights of its experts.
enum class ExpertWeights : std::uint8_t {
  kFused,    ///< One tensor for each product of all experts.
  kModules,  ///< Each expert is a module with three linear layers (transformers before 5.0).
};

/// One parameter of a model.
struct ModelParameter {
  TensorInfo info;  ///< Name as in `named_parameters()`; the layer counts through all stacks.
  OpRole role = OpRole::kNone;  ///< The role of the operator that reads it.
  ParameterPart part = ParameterPart::kWeight;
  Module module = Module::kNone;  ///< The layer's module: tells self- from cross-attention.
};

}  // namespace headroom::ir
