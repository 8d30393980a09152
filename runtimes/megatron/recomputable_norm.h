#pragma once

#include <memory>

#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// A norm whose output may be freed after the following operators have run and is recomputed in
/// backward: CheckpointWithoutOutput around a norm that is not part of a linear layer.
/// Source: megatron/core/tensor_parallel/random.py, CheckpointWithoutOutput.
class RecomputableNorm {
 public:
  RecomputableNorm(const Runner& run, const torch::Tensor& input, const NormWeights& weights,
                   bool recompute);
  [[nodiscard]] const torch::Tensor& output() const { return output_; }
  /// Frees the output until the gradient of `hook` has been computed. Does nothing for a norm that
  /// is not recomputed.
  void discard_until(const torch::Tensor& hook);

 private:
  struct Again;

  Runner run_;
  torch::Tensor output_;
  std::shared_ptr<Again> again_;  ///< Null if the norm is not recomputed.
};

}  // namespace headroom::ir::megatron
