#pragma once

#include "runtimes/fsdp/fully_shard.h"
#include "runtimes/torchtitan/model.h"
#include "runtimes/torchtitan/operator_cache.h"
#include "runtimes/torchtitan/tensor_mesh.h"

namespace headroom::ir::torchtitan {

/// Everything that a forward needs to run.
struct Context {
  torch::Eager& eager;
  const Model& model;
  TensorMesh& mesh;
  fsdp::FullyShard& hooks;
};

/// One run of a layer, in forward or as recomputation.
struct LayerRun {
  Context& context;
  const Block& block;
  std::int32_t layer;           ///< Number of the layer in the whole model.
  const torch::Tensor& rotary;  ///< The rotary table that was passed to the layer.
  OperatorCache* cache;         ///< Null unless operators are checkpointed selectively.
};

/// nn.Linear without a bias: a matrix product. Selective checkpointing keeps every second one.
[[nodiscard]] torch::Tensor linear(const LayerRun& run, const torch::Tensor& x,
                                   const torch::Tensor& weight);

}  // namespace headroom::ir::torchtitan
