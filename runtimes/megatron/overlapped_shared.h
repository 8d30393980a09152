#pragma once

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// Shared experts on a stream of their own, overlapped with the dispatcher
/// (--moe-shared-expert-overlap). The dispatcher calls their steps in the order below, between its
/// own. In backward, the nodes of their results and of the overlapped token exchanges run before
/// all other ready nodes.
/// Source: megatron/core/transformer/moe/shared_experts.py; token_dispatcher.py.
class OverlappedShared {
 public:
  OverlappedShared(const Runner& run, const LayerWeights& layer);

  /// pre_forward_comm: gathers the tokens of all tensor-parallel ranks.
  void gather_tokens(const torch::Tensor& rows);
  /// linear_fc1_forward_and_act. `dispatched`: the tokens whose exchange overlaps it.
  void first_product(const torch::Tensor& dispatched);
  /// linear_fc2_forward and post_forward_comm. `combined`: the results whose exchange overlaps it.
  void second_product(const torch::Tensor& combined);
  /// get_output, which is added in place to a view of the routed experts' result.
  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& routed);

 private:
  const Runner& run_;
  const MlpWeights& weights_;
  StreamId stream_;
  torch::Tensor tokens_;
  torch::Tensor activated_;
  torch::Tensor output_;
};

}  // namespace headroom::ir::megatron
