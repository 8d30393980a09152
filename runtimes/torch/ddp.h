#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// Splits tensors into buckets: each takes tensors of one type, in order, until it has reached the
/// cap. Returns indices into `bytes`; `dtypes` names each tensor's type.
///
/// Source: pytorch/pytorch 2.11 torch/csrc/distributed/c10d/reducer.cpp,
/// compute_bucket_assignment_by_size.
[[nodiscard]] std::vector<std::vector<std::size_t>> assign_buckets(
    std::span<const std::int64_t> bytes, std::span<const DType> dtypes, std::int64_t cap_bytes);

/// _broadcast_coalesced: tensors of one type are sent together, up to 250 MiB plus the tensor that
/// exceeds it. Two such buckets are sent at once.
/// Source: pytorch/pytorch 2.11 torch/csrc/distributed/c10d/comm.cpp, broadcast_coalesced.
void broadcast_coalesced(Eager& eager, std::int64_t world, std::span<const Tensor> tensors);

/// The allocations and collectives of `torch.nn.parallel.DistributedDataParallel` around a model on
/// one device. It must outlive every backward of the model.
///
///   construction        with `init_sync`: ranks compare the shapes of their trained parameters,
///                       and rank 0 sends all parameters and buffers (broadcast_coalesced);
///                       one bucket per type, of all its gradients
///   1st before_forward  buffers are broadcast
///   1st backward        each gradient is copied into the bucket; the order of arrival is noted
///   2nd before_forward  buckets are rebuilt in that order, at most `bucket_cap_bytes` and the
///                       gradient that exceeds it
///
/// With `gradient_as_bucket_view`, a gradient becomes a view of its bucket once it has been copied
/// there. Collectives work on the buckets in place and allocate nothing.
///
/// Requires: every parameter gets a gradient in every backward (find_unused_parameters is off).
/// Ignores:  the smaller first bucket that PyTorch makes if no cap is given.
/// Source:   pytorch/pytorch 2.11 torch/nn/parallel/distributed.py,
///           torch/csrc/distributed/c10d/{reducer,comm}.cpp.
class Ddp {
 public:
  /// `parameters`: all of the module's in its order, each once; frozen ones have no gradients to
  /// reduce. `buffers`: all of the module's, in order.
  Ddp(Eager& eager, const DdpPlan& plan, std::int64_t world, std::span<const Tensor> parameters,
      std::span<const Tensor> buffers);
  ~Ddp();
  Ddp(const Ddp&) = delete;
  Ddp& operator=(const Ddp&) = delete;

  /// Called before every forward, in training and in evaluation.
  void before_forward();

 private:
  struct Bucket {
    Tensor memory;
    std::vector<std::size_t> parameters;
    std::size_t pending = 0;  ///< Gradients that have not arrived in this backward.
  };

  /// verify_params_across_processes: each rank's number of trained parameters, then rank 0's sizes
  /// and strides.
  void compare_shapes();
  void make_buckets(const std::vector<std::vector<std::size_t>>& assignment);
  void rebuild_buckets();
  void broadcast_buffers();
  void broadcast(std::int64_t bytes);
  /// Buckets are reduced in order, each as soon as it and all previous ones are complete.
  void reduce_complete_buckets();
  /// Runs when the gradient of parameter `index` is complete.
  void arrived(std::size_t index);
  /// Makes the gradient of `parameter` a view of its bucket.
  void move_gradient(const Tensor& parameter, const Bucket& bucket);
  [[nodiscard]] std::vector<std::vector<std::size_t>> assign(const std::vector<std::size_t>& order,
                                                             std::int64_t cap_bytes) const;

  Eager& eager_;
  DdpPlan plan_;
  std::int64_t world_;
  std::vector<Tensor> parameters_;
  std::vector<Tensor> buffers_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  ///< By parameter.
  std::vector<std::size_t> arrivals_;   ///< Order of arrival in the first backward.
  bool rebuilt_ = false;
  std::size_t next_bucket_ = 0;         ///< Next bucket to be reduced.
  std::vector<std::uint32_t> reduced_;  ///< Marks after the reductions in progress.
};

}  // namespace headroom::ir::torch
