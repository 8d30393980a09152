#pragma once

#include <array>
#include <optional>
#include <vector>

#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/quantised.h"

/// LitGPT: one modelling code for all families, with adapters of its own.
/// Source: Lightning-AI/litgpt of April 2024 (3bd08dd), litgpt/model.py and litgpt/lora.py; for
/// Gemma 2 the version that brought it (916a84c).
namespace headroom::ir::litgpt {

/// A linear layer, and the adapter on it if it has one.
struct Linear {
  torch::Tensor weight;  ///< [out, in]; undefined where `packed` is there.
  std::optional<transformers::QuantisedWeight> packed;
  torch::Tensor bias;  ///< [out] or undefined.
  torch::Tensor a;     ///< lora_A [r, in]; undefined: no adapter.
  torch::Tensor b;     ///< lora_B [out, r]
};

/// The fused projection, whose adapter may serve some of its three parts only.
struct FusedLinear {
  Linear linear;
  std::array<bool, 3> adapted{};  ///< Queries, keys, values.
};

struct Norm {
  torch::Tensor weight;
  torch::Tensor bias;  ///< LayerNorm alone.
};

struct Block {
  Norm first;
  Norm second;           ///< Undefined where attention and MLP share a norm.
  Norm after_attention;  ///< Gemma 2 alone, as the next one.
  Norm after_mlp;
  FusedLinear qkv;
  Linear projection;
  Linear fc;      ///< fc_1 of a gated MLP.
  Linear fc_two;  ///< Of a gated MLP alone.
  Linear mlp_projection;
};

/// Which layers `LoraPlan::targets` names: query, key, value, projection, mlp, head; all but the
/// head if it names none.
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
  torch::Tensor dynamic_codes;           ///< Shared by all double quantisation.
  std::vector<torch::Tensor> trainable;  ///< In the order of model.parameters().
};

/// Why LitGPT's code, as far as it is modelled, cannot run this; nothing if it can.
[[nodiscard]] std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan);

/// Builds the model on the device in the order of the constructors. Embedding and head are never
/// tied: LitGPT loads a tied weight twice.
[[nodiscard]] Model load_model(torch::Eager& eager, const ModelSpec& spec,
                               const ParallelPlan& plan);

}  // namespace headroom::ir::litgpt
