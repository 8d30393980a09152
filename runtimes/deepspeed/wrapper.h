#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::deepspeed {

/// What the wrappers of all stages share: the engine, the plan and the module tree.
struct EngineState {
  torch::Eager& eager;
  const ParallelPlan& plan;
  const ZeroPlan& zero;
  transformers::Model& model;
  std::int64_t rank = 0;  ///< One of `plan.world` ranks.

  [[nodiscard]] bool offloads_optimizer() const {
    return zero.offload_optimizer != OffloadDevice::kNone;
  }
  /// Whether part of what the optimizer steps may stay on the device (offload_optimizer.ratio).
  [[nodiscard]] bool splits_optimizer() const {
    return offloads_optimizer() && zero.offload_ratio < 1;
  }
  /// Adds a piece to the memory that the optimizer's offload target holds, in bytes.
  void hold_offloaded(HostUse use, HostPages pages, std::int64_t bytes) const;
  /// torch.cuda.empty_cache()
  void empty_cache() const;
  /// Bytes of all live blocks, each rounded up to 512.
  [[nodiscard]] std::int64_t allocated() const;
  /// The host steps its `elements` elements, and the updated ones are copied to the device in
  /// `dtype`.
  void step_on_host(std::int64_t elements, DType dtype) const;
  /// Gathers a flat group of parameters from its partitions. With one rank, nothing is gathered.
  void count_all_gather(std::int64_t elements, DType dtype) const;
};

/// Elements of one partition of a list of parameters laid end to end, padded to a multiple of 2n
/// elements.
/// Source: stage_1_and_2.py, flatten_dense_tensors_aligned.
[[nodiscard]] std::int64_t partition_elements(std::int64_t elements, std::int64_t ranks);

/// Whether a tensor is swapped to NVMe. Small tensors stay on the host.
/// Source: deepspeed/runtime/swap_tensor/utils.py, MIN_AIO_BYTES.
[[nodiscard]] bool swaps_out(OffloadDevice device, Bytes bytes);

/// Number of fp32 states that an optimizer has for each parameter.
[[nodiscard]] std::size_t moment_count(const OptimizerPlan& optimizer);

/// DeepSpeed's own optimizer class: the engine calls it around forward, backward and step.
class OptimizerWrapper {
 public:
  OptimizerWrapper() = default;
  OptimizerWrapper(const OptimizerWrapper&) = delete;
  OptimizerWrapper& operator=(const OptimizerWrapper&) = delete;
  virtual ~OptimizerWrapper() = default;

  /// The constructor, which runs within deepspeed.initialize.
  virtual void initialize() = 0;
  /// `boundary`: whether this is the last micro-batch before a step.
  virtual void before_backward(bool boundary) { static_cast<void>(boundary); }
  virtual void after_backward(bool boundary) = 0;
  virtual void step() = 0;
  /// What the wrapped optimizer steps on the device, by its parameter groups; undefined tensors are
  /// elsewhere.
  [[nodiscard]] virtual std::vector<std::vector<torch::Tensor>> stepped() const = 0;
  /// Runs when a checkpoint has been loaded.
  virtual void loaded() {}
  /// Whether the wrapper multiplies the loss by its own loss scale.
  [[nodiscard]] virtual bool scales_loss() const { return false; }
};

}  // namespace headroom::ir::deepspeed
