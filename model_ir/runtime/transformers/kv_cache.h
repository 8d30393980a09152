#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/torch/tensor.h"

namespace headroom::ir::transformers {

/// DynamicCache: keys and values of each layer, which grow by being copied into longer tensors.
/// Source: huggingface/transformers 5.17 cache_utils.py, DynamicLayer.update.
class KeyValueCache {
 public:
  explicit KeyValueCache(std::size_t layers) : layers_(layers) {}

  /// Appends k and v [B, K, S, D] of a layer, and makes them all that the layer has.
  void update(torch::Eager& eager, std::int32_t layer, torch::Tensor& k, torch::Tensor& v) {
    auto& [keys, values] = layers_.at(static_cast<std::size_t>(layer));
    keys = joined(eager, keys, k);
    values = joined(eager, values, v);
    k = keys;
    v = values;
  }

 private:
  /// torch.cat along the positions.
  [[nodiscard]] static torch::Tensor joined(torch::Eager& eager, const torch::Tensor& past,
                                            const torch::Tensor& next) {
    const std::int64_t before = past.defined() ? past.shape()[2] : 0;
    return eager.empty(next.shape().with(2, before + next.shape()[2]), next.dtype(),
                       TensorRole::kActivation);
  }

  std::vector<std::pair<torch::Tensor, torch::Tensor>> layers_;
};

}  // namespace headroom::ir::transformers
