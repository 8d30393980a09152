#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// The stream on which the training script wraps the model. The buffers are allocated on it, and
/// gradient hooks run on it.
/// Source: NVIDIA/Megatron-LM megatron/training/training.py, get_model.
inline constexpr StreamId kWrappingStream = 1;

/// The place of a parameter in its buffer, in elements.
struct Slot {
  const Parameter* parameter = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// A part of the buffer that is reduced as a whole, in elements.
struct Bucket {
  std::int64_t begin = 0;
  std::int64_t end = 0;   ///< Includes padding.
  std::size_t first = 0;  ///< Index of its first slot.
  std::size_t last = 0;   ///< One past the index of its last slot.
};

/// _ParamAndGradBuffer: the gradients of one kind of parameter of a chunk in one tensor and, with
/// the distributed optimizer, the parameters in another. The last parameters come first.
///
/// Model:  with the distributed optimizer, parameters start at multiples of 64 elements and buckets
///         end at multiples of lcm(ranks, 128). Nothing is padded without it. A tied embedding that
///         two stages hold is a bucket of its own. The row-wise data of FP8 parameters have a
///         buffer of bytes; their other parts stay where they are. Under the recipe mxfp8 no
///         parameter moves: the 16-bit weights that are gathered lie in the first half of the
///         gradients for FP8 parameters, and in a buffer of their own for the others
///         (--reuse-grad-buf-for-mxfp8-param-ag).
/// Source: megatron/core/distributed/param_and_grad_buffer.py.
struct GradientBuffer {
  const Chunk* chunk = nullptr;
  bool expert = false;
  bool fp8 = false;  ///< The parameters are stored in FP8.
  Axis ranks;        ///< The ranks that hold the same parameters.
  torch::Tensor parameters;
  /// Type of the parameters that the distributed optimizer gathers.
  DType gathered = DType::kBf16;
  torch::Tensor gradients;
  std::vector<Slot> slots;
  std::vector<Bucket> buckets;
};

/// A bucket and the buffer that it belongs to.
struct BucketOf {
  const GradientBuffer* buffer = nullptr;
  const Bucket* bucket = nullptr;

  [[nodiscard]] std::int64_t elements() const { return bucket->end - bucket->begin; }
  [[nodiscard]] std::size_t slots() const { return bucket->last - bucket->first; }
};
/// Buckets of the same ranks that are reduced and gathered together.
using BucketGroup = std::vector<BucketOf>;

/// Elements of `slot` that are in this rank's shard of `bucket`. There are none if the number is
/// not positive.
[[nodiscard]] std::int64_t local_elements(const GradientBuffer& buffer, const Bucket& bucket,
                                          const Slot& slot);

/// Each bucket is a group. If some parameters are stored in FP8, all buckets of the other
/// parameters join the last FP8 bucket.
/// Source: megatron/core/distributed/param_and_grad_buffer.py, partition_buckets.
[[nodiscard]] std::vector<BucketGroup> group_buckets(std::span<const GradientBuffer> buffers);

/// Whether updated parameters are gathered in 16 bits in the gradient buffer and then cast.
[[nodiscard]] bool gathers_into_gradients(const MegatronPlan& megatron);

/// The buffers of a chunk: first those of dense parameters, then those of experts; each kind in the
/// order of its first parameter. Moves the parameters into their buffers.
/// `first_chunk`: the first chunk of a stage. Only that of the first stage is divided into buckets.
[[nodiscard]] std::vector<GradientBuffer> make_buffers(const Runner& run, const Chunk& chunk,
                                                       bool first_chunk);

}  // namespace headroom::ir::megatron
