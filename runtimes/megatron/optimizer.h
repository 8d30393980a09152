#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtimes/megatron/gradient_buffer.h"
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// Megatron's optimizers around Transformer Engine's FusedAdam: one for the dense parameters of all
/// chunks, one for the experts.
///
/// Model:  fp16 and bf16 parameters get fp32 copies: with the distributed optimizer of this rank's
///         shard of every bucket, otherwise of whole parameters. The first step makes the states.
///         Gradients that are not fp32 are copied to fp32 in every step; the copies live until the
///         next zero_grad. The precision-aware optimizer reads gradients as they are and keeps 16
///         bits beside each parameter instead of an fp32 copy. With bf16 moments it has fp32 copies
///         of the moments of a whole parameter group during its step. With CPU offload, copies and
///         states of a fraction of the parameters are in the host's memory. FP8 parameters have
///         fp32 copies of their original values. The step rounds this rank's shards to the model's
///         type, reduces the absolute maxima (amax) over all ranks' shards and casts.
/// Source: megatron/core/optimizer/{__init__,optimizer,distrib_optimizer}.py;
///         transformer_engine/pytorch/optimizers/fused_adam.py; pytorch/tensor/utils.py.
class Optimizer {
 public:
  /// Allocates the fp32 copies and the scalars of optimizer and loss scaler.
  Optimizer(const Runner& run, std::span<const GradientBuffer> buffers, bool experts);

  /// Casts the gradients to fp32 and, under fp16, divides them by the loss scale.
  void prepare();
  /// Element counts of the gradients that this rank counts in the gradient norm.
  [[nodiscard]] std::span<const std::int64_t> in_norm() const { return in_norm_; }
  /// Computes the norm of gradients of these sizes, reduced over the ranks that share it.
  void measure_norm(std::span<const std::int64_t> counted);
  /// FusedAdam.step. The first call makes the states.
  void update();
  /// Loads the states of a checkpoint. Those into which it is read are there first; then FusedAdam
  /// makes new ones and copies. The former go when all of the latter exist.
  ///
  /// Ignores: copies on the host; the states of an optimizer that is offloaded; the order in which
  ///          the distributed optimizer makes the first ones.
  /// Source:  Megatron-Core 0.16.1 megatron/core/optimizer/distrib_optimizer.py, sharded_state_dict
  ///          (is_loading) and load_state_dict; optimizer.py, init_state_fn; Transformer
  ///          Engine 2.11 transformer_engine/pytorch/optimizers/fused_adam.py, load_state_dict.
  void resume();
  /// Notes what saving a checkpoint (torch_dist, with or without --async-save) takes of the host:
  /// pinned copies, tensor by tensor, of all that this rank writes.
  ///
  /// Model:  of each of its elements the parameter, the fp32 copy and the moments. PyTorch's pinned
  ///         allocator rounds each tensor to a power of two.
  /// Source: Megatron-Core 0.16.1 megatron/core/dist_checkpointing/strategies/filesystem_async.py,
  ///         preload_tensors; strategies/fully_parallel.py (on by default in Megatron-LM).
  void save();
  void zero_grad() {
    gradients_.clear();
    replaced_.clear();
  }

 private:
  /// Makes the states of one parameter, in its first step.
  void make_states(std::int64_t elements);
  void renew_states();
  /// FusedAdam.step on the parameters [begin, end), a parameter group.
  void step_group(std::size_t begin, std::size_t end);
  void add_scalar();
  /// `spread`: this rank's shard of each parameter; otherwise the whole parameter.
  void add_group(std::span<const GradientBuffer> buffers, bool decays, bool spread);
  void add_shard(const Parameter& parameter, std::int64_t elements);
  void add_copy(std::int64_t elements);
  void build_hybrid(std::span<const GradientBuffer> buffers);
  void split_among_devices();
  void hold_on_host(std::int64_t elements);
  void update_hybrid();
  /// An FP8 parameter, and this rank's elements of it.
  struct Cast {
    const Parameter* parameter = nullptr;
    std::int64_t elements = 0;
  };
  void note_casts(std::span<const GradientBuffer> buffers);
  /// cast_master_weights_to_fp8.
  void cast_parameters();
  void cast_delayed();
  void cast_tensorwise();
  void cast_blocks();
  void reduce_largest(std::int64_t values);
  void launch_cast_of(const Cast& each, int reads);
  [[nodiscard]] torch::Tensor turn_stretch(const Cast& each);
  /// The group of ranks that share a gradient norm.
  [[nodiscard]] RankGroup norm_ranks() const;

  Runner run_;
  const Context& context_;
  bool experts_;
  std::vector<std::int64_t> in_norm_;  ///< Those of `shards_` that this rank counts in the norm.
  std::vector<std::int64_t> shards_;   ///< Elements, in the order of the parameter groups.
  /// For each of `shards_` with CPU offload: 1 if it is on the host.
  std::vector<std::uint8_t> in_host_;
  std::vector<std::uint8_t> cast_;  ///< For each of `shards_`: 1 if the parameter is stored in FP8.
  std::vector<Cast> casts_;         ///< Casts, in the order of the parameters.
  Axis cast_ranks_;                 ///< The ranks that hold shards of the FP8 parameters.
  std::vector<torch::Tensor> main_;      ///< fp32 copies of fp16 and bf16 parameters.
  std::vector<torch::Tensor> replaced_;  ///< Tensors that the first of two hybrid optimizers made.
  std::vector<torch::Tensor> gradients_;
  std::vector<torch::Tensor> states_;
  std::vector<torch::Tensor> wide_;  ///< fp32 copies of bf16 moments, during a step.
  std::size_t first_group_ = 0;      ///< Parameters with weight decay; the others follow.
  std::vector<torch::Tensor> scalars_;
};

/// ChainedOptimizer: the optimizer of the dense parameters and, if there are experts, that of the
/// experts.
[[nodiscard]] std::vector<Optimizer> make_optimizers(const Runner& run,
                                                     std::span<const GradientBuffer> buffers);

}  // namespace headroom::ir::megatron
