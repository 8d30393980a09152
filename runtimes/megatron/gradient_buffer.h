#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// The stream on which the training script wraps the model: of the buffers, and of what the hooks
/// of gradients do. Source: NVIDIA/Megatron-LM megatron/training/training.py, get_model.
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
  std::int64_t end = 0;   ///< Padding included.
  std::size_t first = 0;  ///< Of its slots.
  std::size_t last = 0;   ///< One past them.
};

/// _ParamAndGradBuffer: gradients of one kind of parameter of a chunk in one tensor and, for the
/// distributed optimizer, the parameters in another. Last parameters come first.
///
/// Model:  parameters start at multiples of 64 elements and buckets end at multiples of
///         lcm(ranks, 128) under the distributed optimizer; nothing is padded without it. A tied
///         table that two stages hold is a bucket of its own. Parameters in 8 bits have a buffer of
///         bytes, the rows of each; its other parts stay where they are. Under the recipe mxfp8
///         nothing moves: what is gathered, in 16 bits, lies in the first half of the gradients of
///         what is held in 8 bits, and in a buffer of its own of the rest
///         (--reuse-grad-buf-for-mxfp8-param-ag).
/// Source: megatron/core/distributed/param_and_grad_buffer.py.
struct GradientBuffer {
  const Chunk* chunk = nullptr;
  bool expert = false;
  bool fp8 = false;  ///< Of parameters that are held in 8 bits.
  Axis ranks;        ///< That hold the same parameters.
  torch::Tensor parameters;
  DType gathered = DType::kBf16;  ///< Of what the distributed optimizer gathers.
  torch::Tensor gradients;
  std::vector<Slot> slots;
  std::vector<Bucket> buckets;
};

/// A bucket and the buffer that it is of.
struct BucketOf {
  const GradientBuffer* buffer = nullptr;
  const Bucket* bucket = nullptr;

  [[nodiscard]] std::int64_t elements() const { return bucket->end - bucket->begin; }
  [[nodiscard]] std::size_t slots() const { return bucket->last - bucket->first; }
};
/// Buckets that are reduced and gathered together, of the same ranks.
using BucketGroup = std::vector<BucketOf>;

/// Elements of `slot` that this rank keeps of `bucket`; none where the number is not above 0.
[[nodiscard]] std::int64_t local_elements(const GradientBuffer& buffer, const Bucket& bucket,
                                          const Slot& slot);

/// Each bucket alone; where parameters are held in 8 bits, all buckets of the others join the last
/// one of those.
/// Source: megatron/core/distributed/param_and_grad_buffer.py, partition_buckets.
[[nodiscard]] std::vector<BucketGroup> group_buckets(std::span<const GradientBuffer> buffers);

/// Whether updated parameters are gathered in 16 bits beside what they are held in, and cast.
[[nodiscard]] bool gathers_into_gradients(const MegatronPlan& megatron);

/// The buffers of a chunk: dense parameters, then experts, each kind in the order of its first
/// parameter. Moves the parameters into theirs.
/// `first_chunk`: buckets are cut only on the first chunk of the first stage.
[[nodiscard]] std::vector<GradientBuffer> make_buffers(const Runner& run, const Chunk& chunk,
                                                       bool first_chunk);

}  // namespace headroom::ir::megatron
