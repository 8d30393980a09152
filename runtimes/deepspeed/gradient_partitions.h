#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "runtimes/deepspeed/partitioned_parameters.h"

namespace headroom::ir::deepspeed {

/// Gradients of stage 3 on their way from autograd to this rank's partition.
///
/// Model:  a gradient is copied into a bucket, of which it becomes a view; one that is larger than
///         the bucket stays where it is. A full bucket is laid out by ranks in a second tensor,
///         reduce-scattered in place, and its part added to one flat buffer of all partitions.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/stage3.py,
///         __add_grad_to_ipg_bucket, __reduce_and_partition_ipg_grads, partition_grads;
///         deepspeed/runtime/comm/coalesced_collectives.py, reduce_scatter_coalesced.
class GradientPartitions {
 public:
  GradientPartitions(EngineState state, PartitionedParameters& parameters);

  /// The bucket, then the flat buffer of what `trainable` parameters' partitions take.
  void allocate(const std::vector<std::size_t>& trainable);
  /// `parameter` is of a sub-group whose states lie on a drive: its gradient in fp32 waits on the
  /// device for the others of its bucket.
  void swap_out(std::size_t parameter) { swapped_.insert(parameter); }
  void start_backward(bool boundary) {
    adds_up_ = !boundary_;  // The one before was none.
    boundary_ = boundary;
  }
  void arrived(std::size_t parameter);
  /// Reduces what is left in the bucket.
  void finish_backward();

  /// The flat buffer; undefined where the host holds it.
  [[nodiscard]] const torch::Tensor& flat() const { return flat_; }
  [[nodiscard]] DType dtype() const { return accumulated_; }
  [[nodiscard]] StreamId stream() const { return stream_; }
  /// The step has used the norms of gradients that went to the host.
  void forget_norms() { norms_.clear(); }

 private:
  void reduce();
  void scatter(const std::vector<std::size_t>& parameters);
  [[nodiscard]] torch::Tensor all_reduce_bucket();
  void share_out(const std::vector<std::size_t>& parameters, torch::Tensor reduced);
  [[nodiscard]] torch::Tensor reduce_together(const std::vector<std::size_t>& parameters);
  [[nodiscard]] bool exchanges_integers() const;
  [[nodiscard]] bool is_exchanged(std::size_t parameter) const;
  [[nodiscard]] std::vector<torch::Tensor> reduce_quantised(
      const std::vector<std::size_t>& parameters);
  [[nodiscard]] std::vector<torch::Tensor> cast_gradients(
      const std::vector<std::size_t>& parameters);
  [[nodiscard]] torch::Tensor join(const std::vector<std::size_t>& parameters);
  [[nodiscard]] std::int64_t padded_elements(const std::vector<std::size_t>& parameters) const;
  /// This rank's elements of a parameter, without padding.
  [[nodiscard]] std::int64_t own_elements(std::size_t parameter) const;
  void keep_offloaded(std::size_t parameter, std::vector<torch::Tensor>& swapped);

  EngineState state_;
  PartitionedParameters& parameters_;
  StreamId stream_;
  std::deque<std::uint32_t> reductions_;  ///< Marks behind the last ones.
  DType accumulated_;
  bool boundary_ = true;
  bool adds_up_ = false;  ///< To gradients of earlier micro-batches.
  torch::Tensor bucket_;
  torch::Tensor flat_;
  std::vector<std::size_t> waiting_;
  std::int64_t filled_ = 0;
  std::set<std::size_t> swapped_;
  std::map<std::size_t, torch::Tensor> norms_;  ///< Of gradients that went to the host.
};

}  // namespace headroom::ir::deepspeed
