#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtimes/megatron/gradient_buffer.h"
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// Megatron's optimizers around Transformer Engine's FusedAdam: one for the dense parameters of
/// all chunks, one for the experts.
///
/// Model:  fp16 and bf16 parameters get fp32 copies, of this rank's stretch of every bucket under
///         the distributed optimizer and of whole parameters without it; states are made by the
///         first step. Gradients that are no fp32 are copied to fp32 by every step and live until
///         the next zero_grad. The precision-aware optimizer reads gradients as they are, keeps 16
///         bits beside each parameter instead of an fp32 copy, and, with bf16 moments, has these of
///         a whole parameter group in fp32 during its step. Under CPU offload a share of the
///         parameters has copies and states in the host's memory. Parameters in 8 bits have fp32
///         copies of what they were before; the step rounds this rank's stretches to the model's
///         type, finds the largest values of all ranks' stretches and casts.
/// Source: megatron/core/optimizer/{__init__,optimizer,distrib_optimizer}.py;
///         transformer_engine/pytorch/optimizers/fused_adam.py; pytorch/tensor/utils.py.
class Optimizer {
 public:
  /// Allocates the fp32 copies and the scalars of optimizer and loss scaler.
  Optimizer(const Runner& run, std::span<const GradientBuffer> buffers, bool experts);

  /// Casts the gradients to fp32 and, under fp16, divides them by the loss scale.
  void prepare();
  /// Elements of what this rank counts in the norm of gradients.
  [[nodiscard]] std::span<const std::int64_t> in_norm() const { return in_norm_; }
  /// The norm of gradients of these sizes, with those of the ranks that share it.
  void measure_norm(std::span<const std::int64_t> counted);
  /// FusedAdam.step: the first call makes the states.
  void update();
  void zero_grad() {
    gradients_.clear();
    replaced_.clear();
  }

 private:
  /// The states of one parameter, at its first step.
  void make_states(std::int64_t elements);
  /// FusedAdam.step on the parameters [begin, end), a parameter group.
  void step_group(std::size_t begin, std::size_t end);
  void add_scalar();
  /// `spread`: of each parameter this rank's stretch, else all of it.
  void add_group(std::span<const GradientBuffer> buffers, bool decays, bool spread);
  void add_shard(const Parameter& parameter, std::int64_t elements);
  void add_copy(std::int64_t elements);
  void build_hybrid(std::span<const GradientBuffer> buffers);
  void split_among_devices();
  void hold_on_host(std::int64_t elements);
  void update_hybrid();
  /// A parameter in 8 bits, and what this rank has of it.
  struct Cast {
    const Parameter* parameter = nullptr;
    std::int64_t elements = 0;
  };
  void note_casts(std::span<const GradientBuffer> buffers);
  /// cast_master_weights_to_fp8
  void cast_parameters();
  void cast_delayed();
  void cast_tensorwise();
  void cast_blocks();
  void reduce_largest(std::int64_t values);
  void launch_cast_of(const Cast& each, int reads);
  [[nodiscard]] torch::Tensor turn_stretch(const Cast& each);
  /// How many ranks share a gradient norm.
  [[nodiscard]] RankGroup norm_ranks() const;

  Runner run_;
  const Context& context_;
  bool experts_;
  std::vector<std::int64_t> in_norm_;    ///< Of `shards_`: those that this rank counts in the norm.
  std::vector<std::int64_t> shards_;     ///< Elements, in the order of the parameter groups.
  std::vector<std::uint8_t> in_host_;    ///< Of `shards_`, under CPU offload: 1 where the host's.
  std::vector<std::uint8_t> cast_;       ///< Of `shards_`: 1 where the parameter is in 8 bits.
  std::vector<Cast> casts_;              ///< In the order of the parameters.
  Axis cast_ranks_;                      ///< That hold stretches of them.
  std::vector<torch::Tensor> main_;      ///< fp32 copies of fp16 and bf16 parameters.
  std::vector<torch::Tensor> replaced_;  ///< What the first of two hybrid optimizers made.
  std::vector<torch::Tensor> gradients_;
  std::vector<torch::Tensor> states_;
  std::vector<torch::Tensor> wide_;  ///< fp32 copies of bf16 moments, during a step.
  std::size_t first_group_ = 0;      ///< Parameters that decay; the others follow.
  std::vector<torch::Tensor> scalars_;
};

/// ChainedOptimizer: the dense parameters' and, where there are any, the experts'.
[[nodiscard]] std::vector<Optimizer> make_optimizers(const Runner& run,
                                                     std::span<const GradientBuffer> buffers);

}  // namespace headroom::ir::megatron
