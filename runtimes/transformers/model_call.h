#pragma once

#include <vector>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::transformers {

/// The result of a call of the model.
struct ModelOutput {
  torch::Tensor loss;
  torch::Tensor auxiliary_loss;  ///< The routers' loss.
  torch::Tensor logits;
  torch::Tensor memory;  ///< Encoder-decoder: encoder_last_hidden_state.
  std::vector<torch::Tensor> router_logits;

  /// Releases all of it, in the order of its fields.
  void clear() {
    loss.reset();
    auxiliary_loss.reset();
    logits.reset();
    memory.reset();
    torch::release_list(router_logits);
  }
};

/// One micro-batch on the device.
struct Batch {
  torch::Tensor ids;
  torch::Tensor labels;                 ///< The ids, or a separate tensor.
  torch::Tensor mask{};                 ///< [B, S] of padded batches, int64.
  std::vector<torch::Tensor> others{};  ///< Further inputs of a recorded model.
};

}  // namespace headroom::ir::transformers
