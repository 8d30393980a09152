#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/graph/graph.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/runtime/torch/eager.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// A LoRA adapter on one linear layer.
struct Adapter {
  torch::Tensor a;          ///< [r, in]
  torch::Tensor b;          ///< [out, r]
  torch::Tensor magnitude;  ///< DoRA: [out]
};

/// The module tree after loading: what lives as long as the process.
struct Model {
  const ModelSpec* spec = nullptr;
  const ParallelPlan* plan = nullptr;
  const Graph* graph = nullptr;
  std::vector<torch::Tensor> parameters;      ///< By TensorId; undefined for other tensors.
  std::vector<torch::Tensor> buffers;         ///< Rotary tables and the like.
  std::map<std::uint32_t, Adapter> adapters;  ///< By TensorId of the adapted weight.
  std::vector<torch::Tensor> trainable;       ///< In the order of model.parameters().
  std::int64_t parameter_count = 0;
  std::int64_t trainable_count = 0;
  bool training = true;
  /// Called before the operators of a layer run (-1: outside the layers): parameter gathering.
  std::function<void(std::int32_t layer)> before_layer;
};

/// Creates the parameters and buffers in the order of the modelling code's constructors; `created`
/// sees each parameter as soon as it exists.
[[nodiscard]] Model load_model(torch::Eager& eager, const ModelSpec& spec, const ParallelPlan& plan,
                               const Graph& graph,
                               const std::function<void(const torch::Tensor&)>& created = {});

/// Adds LoRA adapters as PEFT does after loading.
void add_adapters(torch::Eager& eager, Model& model, const LoraPlan& lora);

}  // namespace headroom::ir::transformers
