#pragma once

#include <vector>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::transformers {

/// What a call of the model returns.
struct ModelOutput {
  torch::Tensor loss;
  torch::Tensor auxiliary_loss;  ///< Of routers.
  torch::Tensor logits;
  torch::Tensor memory;  ///< Encoder-decoder: encoder_last_hidden_state.
  std::vector<torch::Tensor> router_logits;

  /// Lets all of it go, in the order of its fields.
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
  torch::Tensor labels;  ///< The ids, or a tensor of their own.
  torch::Tensor mask{};  ///< [B, S] of padded batches, int64.
};

}  // namespace headroom::ir::transformers
