#pragma once

#include <memory>
#include <vector>

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/checkpoint.h"

namespace headroom::ir::megatron {

/// A region whose results may be freed after the following operators have run. Backward recomputes
/// them; the recomputed results are alive together with the memory of the first ones until their
/// gradients have been computed.
/// Source: megatron/core/tensor_parallel/random.py, CheckpointWithoutOutput.
class DiscardedRegion {
 public:
  /// Runs `region` on `inputs` without recording a graph.
  DiscardedRegion(const Runner& run, const std::vector<torch::Tensor>& inputs,
                  torch::Region region);
  /// The results, which live as long as their readers.
  [[nodiscard]] std::vector<torch::Tensor> take_outputs() const { return outputs_; }
  /// Frees the results until the gradient of `hook` has been computed.
  void discard_until(const torch::Tensor& hook);

 private:
  struct Again;

  Runner run_;
  std::vector<torch::Tensor> outputs_;
  std::shared_ptr<Again> again_;
};

}  // namespace headroom::ir::megatron
