#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model_ir/runtime/megatron/gradient_buffer.h"
#include "model_ir/runtime/megatron/weights.h"
#include "model_ir/runtime/torch/eager.h"

namespace headroom::ir::megatron {

/// Megatron's optimizers around Transformer Engine's FusedAdam: one for the dense parameters of
/// all chunks, one for the experts.
///
/// Model:  fp16 and bf16 parameters get fp32 copies, of this rank's stretch of every bucket under
///         the distributed optimizer and of whole parameters without it; states are made by the
///         first step. Gradients that are no fp32 are copied to fp32 by every step and live until
///         the next zero_grad.
/// Source: megatron/core/optimizer/{__init__,optimizer,distrib_optimizer}.py;
///         transformer_engine/pytorch/optimizers/fused_adam.py.
class Optimizer {
 public:
  /// Allocates the fp32 copies and the scalars of optimizer and loss scaler.
  Optimizer(const Context& context, std::span<const GradientBuffer> buffers, bool experts);

  /// Brings the gradients to fp32 and, under fp16, out of their scale.
  void prepare();
  void measure_norm();
  /// FusedAdam.step: the first call makes the states.
  void update();
  void zero_grad() { gradients_.clear(); }

 private:
  void add_scalar();
  void add_group(std::span<const GradientBuffer> buffers, bool decays);
  void add_shard(const Parameter& parameter, std::int64_t elements);
  /// How many ranks share a gradient norm.
  [[nodiscard]] RankGroup norm_ranks() const;

  const Context& context_;
  bool experts_;
  std::vector<std::int64_t> in_norm_;  ///< Of `shards_`: those that this rank counts in the norm.
  std::vector<std::int64_t> shards_;   ///< Elements, in the order of the parameter groups.
  std::vector<torch::Tensor> main_;    ///< fp32 copies of fp16 and bf16 parameters.
  std::vector<torch::Tensor> gradients_;
  std::vector<torch::Tensor> states_;
  std::vector<torch::Tensor> scalars_;
};

/// ChainedOptimizer: the dense parameters' and, where there are any, the experts'.
[[nodiscard]] std::vector<Optimizer> make_optimizers(const Context& context,
                                                     std::span<const GradientBuffer> buffers);

}  // namespace headroom::ir::megatron
