#pragma once

#include "runtimes/torchtitan/forward.h"
#include "runtimes/torchtitan/operator_cache.h"

namespace headroom::ir::torchtitan {

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
