#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/graph/op.h"
#include "model_ir/graph/tensor.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// What a parameter is to the operator that reads it.
enum class ParameterPart : std::uint8_t { kWeight, kBias };

/// How a mixture holds the weights of its experts.
enum class ExpertWeights : std::uint8_t {
  kFused,    ///< One tensor for each product of all experts.
  kModules,  ///< Each expert is a module of three linear layers (transformers before 5.0).
};

/// One parameter of a model.
struct ModelParameter {
  TensorInfo info;  ///< Name as in `named_parameters()`; the layer counts through all stacks.
  OpRole role = OpRole::kNone;  ///< Of the operator that reads it.
  ParameterPart part = ParameterPart::kWeight;
  Module module = Module::kNone;  ///< Of the layer; tells self-attention from cross-attention.
};

/// Every parameter of a model, in the order of `model.named_parameters()`: the order in which the
/// constructors register them, which is also that of optimizer states and gradient buckets.
///
/// Model:   fused experts are tensors [E, out, in] (gpt-oss [E, in, out]), as the library holds
///          them in memory; a tied head has no parameter of its own. Layers of an encoder come
///          first: encoder 0..E-1, decoder E..E+L-1.
/// Ignores: buffers (rotary tables, correction biases, position ids).
/// Source:  huggingface/transformers 5.17.0 (`kModules`: 4.57.1),
///          src/transformers/models/*/modeling_*.py.
[[nodiscard]] std::vector<ModelParameter> parameter_table(
    const ModelSpec& model, ExpertWeights experts = ExpertWeights::kFused);

}  // namespace headroom::ir
