#pragma once

#include "runtimes/fsdp/fully_shard.h"
#include "runtimes/torchtitan/model.h"
#include "runtimes/torchtitan/operator_cache.h"
#include "runtimes/torchtitan/tensor_mesh.h"

namespace headroom::ir::torchtitan {

/// What a forward runs with.
struct Context {
  torch::Eager& eager;
  const Model& model;
  TensorMesh& mesh;
  fsdp::FullyShard& hooks;
};

/// One layer's run, the first or again.
struct LayerRun {
  Context& context;
  const Block& block;
  std::int32_t layer;           ///< In the whole model.
  const torch::Tensor& rotary;  ///< As the layer was given it.
  OperatorCache* cache;         ///< Null unless operators are checkpointed selectively.
};

/// nn.Linear without a bias: a matrix product, every second of which selective checkpointing keeps.
[[nodiscard]] torch::Tensor linear(const LayerRun& run, const torch::Tensor& x,
                                   const torch::Tensor& weight);

}  // namespace headroom::ir::torchtitan
