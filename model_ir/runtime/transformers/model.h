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
#include "model_ir/runtime/transformers/quantised.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// A LoRA adapter on one linear layer.
struct Adapter {
  torch::Tensor a;          ///< [r, in]
  torch::Tensor b;          ///< [out, r]
  torch::Tensor magnitude;  ///< DoRA: [out]
};

/// A module that a wrapper may have hooked: a layer by its number, or one of these.
inline constexpr std::int32_t kEmbeddingModule = -2;
inline constexpr std::int32_t kHeadModule = -3;

/// Hooks of a wrapper around the calls of modules; empty without one.
struct ModuleHooks {
  /// Sees what a module is called with, and may replace it; undefined tensors are no arguments.
  std::function<void(std::int32_t module, std::vector<torch::Tensor>& inputs)> before;
  std::function<void(std::int32_t module, const std::vector<torch::Tensor>& outputs)> after;
  /// Type to which layers have their other floating-point arguments cast, too.
  std::optional<DType> input_dtype;
};

/// The module tree after loading: what lives as long as the process.
struct Model {
  const ModelSpec* spec = nullptr;
  const ParallelPlan* plan = nullptr;
  const Graph* graph = nullptr;
  std::vector<torch::Tensor> parameters;  ///< By TensorId; undefined for other tensors.
  std::map<std::uint32_t, torch::Tensor> corrections;  ///< By TensorId of a router's weight.
  std::vector<torch::Tensor> buffers;                  ///< Rotary tables and the like.
  std::map<std::uint32_t, QuantisedWeight> quantised;  ///< By TensorId of the weight.
  torch::Tensor dynamic_codes;                         ///< Shared by all double quantisation.
  std::map<std::uint32_t, Adapter> adapters;           ///< By TensorId of the adapted weight.
  std::vector<torch::Tensor> trainable;                ///< In the order of model.parameters().
  std::int64_t parameter_count = 0;
  std::int64_t trainable_count = 0;
  bool training = true;
  /// Called before the operators of a layer run (-1: outside the layers): parameter gathering.
  std::function<void(std::int32_t layer)> before_layer;
  ModuleHooks hooks;
};

/// Creates the parameters and buffers in the order of the modelling code's constructors; `created`
/// sees each parameter as soon as it exists.
[[nodiscard]] Model load_model(torch::Eager& eager, const ModelSpec& spec, const ParallelPlan& plan,
                               const Graph& graph,
                               const std::function<void(const torch::Tensor&)>& created = {});

/// Whether `op` is a linear layer of the body: not the head.
[[nodiscard]] bool is_body_linear(const Op& op);

/// prepare_model_for_kbit_training: parameters that are not quantised become fp32, one by one.
/// Source: huggingface/peft 0.21, src/peft/utils/other.py.
void prepare_kbit(torch::Eager& eager, Model& model);

/// Adds LoRA adapters as PEFT does after loading.
void add_adapters(torch::Eager& eager, Model& model, const LoraPlan& lora);

}  // namespace headroom::ir::transformers
