#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::transformers {

/// What `generate` passes to a forward in addition to the tokens.
struct GivenInputs {
  torch::Tensor mask;       ///< [B, tokens so far and those passed], all ones.
  torch::Tensor positions;  ///< [B, tokens passed]
};

/// DynamicCache: keys and values of each layer, which grow by copies into longer tensors. A layer
/// with a window of w tokens copies only the last w - 1, but keeps a view of the longer tensor and
/// thus its memory.
/// Source: huggingface/transformers 5.17 cache_utils.py, DynamicLayer.update,
///         DynamicSlidingWindowLayer.update.
class KeyValueCache {
 public:
  explicit KeyValueCache(const ModelSpec& spec) {
    for (const LayerSpec& layer : spec.layers) {
      layers_.push_back({.window = layer.window, .keys = {}, .values = {}, .width = {}});
    }
  }

  GivenInputs given;     ///< Inputs of the current forward.
  bool decodes = false;  ///< The prompt has been processed.

  /// Appends k and v [B, K, S, D] of a layer and replaces them with all that the layer sees.
  void update(torch::Eager& eager, std::int32_t index, torch::Tensor& k, torch::Tensor& v) {
    Layer& layer = layers_.at(static_cast<std::size_t>(index));
    if (layer.window && !layer.width.defined()) {
      layer.width = eager.empty({}, DType::kInt64, TensorRole::kActivation);
    }
    torch::Tensor keys = joined(eager, layer, layer.keys, k);
    if (!layer.window) {
      layer.keys = keys;  // Assigned before the values are concatenated.
    }
    torch::Tensor values = joined(eager, layer, layer.values, v);
    layer.keys = std::move(keys);
    layer.values = std::move(values);
    k = layer.keys;
    v = layer.values;
  }

 private:
  struct Layer {
    std::optional<std::int64_t> window;
    torch::Tensor keys;    ///< [B, K, S, D] of the last forward.
    torch::Tensor values;  ///< The same for values.
    torch::Tensor width;   ///< The window as a number on the device.
  };

  /// torch.cat along the positions.
  [[nodiscard]] static torch::Tensor joined(torch::Eager& eager, const Layer& layer,
                                            const torch::Tensor& past, const torch::Tensor& next) {
    const std::int64_t before = past.defined() ? past.shape()[2] : 0;
    const std::int64_t kept = layer.window ? std::min(before, *layer.window - 1) : before;
    return eager.empty(next.shape().with(2, kept + next.shape()[2]), next.dtype(),
                       TensorRole::kActivation);
  }

  std::vector<Layer> layers_;
};

}  // namespace headroom::ir::transformers
