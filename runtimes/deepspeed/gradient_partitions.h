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
/// Model:  a gradient is copied into a bucket and becomes a view of it. One that is larger than the
///         bucket stays in its own memory. A full bucket is laid out by rank in a second tensor,
///         which is reduce-scattered in place. This rank's part is added to one flat buffer of all
///         partitions.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/stage3.py,
///         __add_grad_to_ipg_bucket, __reduce_and_partition_ipg_grads, partition_grads;
///         deepspeed/runtime/comm/coalesced_collectives.py, reduce_scatter_coalesced.
class GradientPartitions {
 public:
  GradientPartitions(EngineState state, PartitionedParameters& parameters);

  /// Allocates the bucket, then the flat buffer with the partitions of the `trainable` parameters.
  void allocate(const std::vector<std::size_t>& trainable);
  /// Tells that the states of `parameter`'s sub-group are on NVMe: its fp32 gradient stays on the
  /// device until the others of its bucket are there.
  void swap_out(std::size_t parameter) { swapped_.insert(parameter); }
  void start_backward(bool boundary) {
    adds_up_ = !boundary_;  // The previous one was no boundary.
    boundary_ = boundary;
  }
  void arrived(std::size_t parameter);
  /// Reduces what remains in the bucket.
  void finish_backward();

  /// The flat buffer; undefined if the host holds it.
  [[nodiscard]] const torch::Tensor& flat() const { return flat_; }
  [[nodiscard]] DType dtype() const { return accumulated_; }
  [[nodiscard]] StreamId stream() const { return stream_; }
  /// Frees the norms of gradients that went to the host, once the step has used them.
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
  std::deque<std::uint32_t> reductions_;  ///< Marks after the latest reductions.
  DType accumulated_;
  bool boundary_ = true;
  bool adds_up_ = false;  ///< Whether gradients are added to earlier ones.
  torch::Tensor bucket_;
  torch::Tensor flat_;
  std::vector<std::size_t> waiting_;
  std::int64_t filled_ = 0;
  std::set<std::size_t> swapped_;
  std::map<std::size_t, torch::Tensor> norms_;  ///< Norms of gradients sent to the host.
};

}  // namespace headroom::ir::deepspeed
