#pragma once

#include <array>
#include <optional>
#include <vector>

#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/quantised.h"

/// LitGPT, which has one modelling code for all families, and its own adapters.
/// Source: Lightning-AI/litgpt of April 2024 (3bd08dd), litgpt/model.py and litgpt/lora.py; for
/// Gemma 2 the commit that added it (916a84c).
namespace headroom::ir::litgpt {

/// A linear layer and its adapter, if it has one.
struct Linear {
  torch::Tensor weight;  ///< [out, in]; undefined if `packed` is set.
  std::optional<transformers::QuantisedWeight> packed;
  torch::Tensor bias;  ///< [out] or undefined.
  torch::Tensor a;     ///< lora_A [r, in]; undefined without adapter.
  torch::Tensor b;     ///< lora_B [out, r]
};

/// The fused projection of queries, keys and values. Its adapter may cover only some of the three.
struct FusedLinear {
  Linear linear;
  std::array<bool, 3> adapted{};  ///< Queries, keys, values.
};

struct Norm {
  torch::Tensor weight;
  torch::Tensor bias;  ///< LayerNorm only.
};

struct Block {
  Norm first;
  Norm second;           ///< Undefined if attention and MLP share a norm.
  Norm after_attention;  ///< Gemma 2 only, like the next one.
  Norm after_mlp;
  FusedLinear qkv;
  Linear projection;
  Linear fc;      ///< fc_1 if the MLP is gated.
  Linear fc_two;  ///< Gated MLP only.
  Linear mlp_projection;
};

/// The layers that `LoraPlan::targets` names: query, key, value, projection, mlp, head. If it names
/// none, all except the head.
struct Targets {
  std::array<bool, 3> qkv{};
  bool projection = false;
  bool mlp = false;
  bool head = false;
};

struct Model {
  const ModelSpec* spec = nullptr;
  const ParallelPlan* plan = nullptr;
  Linear head;
  torch::Tensor embedding;
  std::vector<Block> blocks;
  Norm final;
  torch::Tensor cos, sin;                ///< [T, rotated D], fp32.
  torch::Tensor dynamic_codes;           ///< Shared by all double-quantised weights.
  std::vector<torch::Tensor> trainable;  ///< In the order of model.parameters().
};

/// Why LitGPT's code, as far as it is modelled, cannot run the plan; nothing if it can.
[[nodiscard]] std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan);

/// Builds the model on the device in the order of the constructors. Embedding and head are never
/// tied, because LitGPT loads a tied weight twice.
[[nodiscard]] Model load_model(torch::Eager& eager, const ModelSpec& spec,
                               const ParallelPlan& plan);

}  // namespace headroom::ir::litgpt
