#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtimes/megatron/gradient_buffer.h"
#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// DistributedDataParallel of every chunk. It frees the gradients of parameters as soon as they
/// have been added to their buffers. It reduces the buffers at the end of a step or, if overlapped,
/// each group of buckets when its last gradient has arrived.
/// Source: megatron/core/distributed/{distributed_data_parallel,param_and_grad_buffer}.py.
class GradientSync {
 public:
  GradientSync(const Runner& run, std::span<const Chunk> chunks,
               std::span<const GradientBuffer> buffers);

  /// Whether buckets are reduced as gradients arrive; off inside no_sync.
  void set_enabled(bool enabled) { enabled_ = enabled; }
  /// start_grad_sync of one chunk. Buckets whose reduction has already started are skipped.
  void start(const Chunk& chunk);
  /// finalize_model_grads: finishes the reductions, starting those that have not started. Then
  /// reduces the gradients that tensor-parallel ranks share and those of an embedding that two
  /// stages share.
  /// Source: megatron/core/distributed/finalize_model_grads.py.
  void finish();

 private:
  struct Part {
    BucketGroup buckets;
    std::size_t missing = 0;  ///< Gradients that have not arrived.
    bool started = false;
    /// The CUDA event after the last reduction, if reductions overlap.
    std::optional<std::uint32_t> mark;
  };
  void hook(const Parameter& parameter, std::size_t part);
  void add_to_buffer(const torch::Tensor& gradient);
  void arrived(std::size_t part);
  void reduce(Part& part);
  void reduce_bucket(Part& part, const BucketOf& each);

  Runner run_;
  std::span<const Chunk> chunks_;
  std::span<const GradientBuffer> buffers_;
  std::vector<Part> parts_;
  bool enabled_ = false;
  bool first_ = true;  ///< The first step counts gradients and reduces at its end.
};

/// The all-gather of updated parameters under the distributed optimizer. If it overlaps, the
/// process records when each layer's parameters have arrived.
void gather_parameters(const Runner& run, std::span<const GradientBuffer> buffers);

}  // namespace headroom::ir::megatron
