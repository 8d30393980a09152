#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/runtime/megatron/weights.h"
#include "model_ir/runtime/torch/eager.h"

namespace headroom::ir::megatron {

/// The stream on which the training script wraps the model: of the buffers, and of what the hooks
/// of gradients do. Source: NVIDIA/Megatron-LM megatron/training/training.py, get_model.
inline constexpr StreamId kWrappingStream = 1;

/// Where a parameter lies in its buffer, in elements.
struct Slot {
  const Parameter* parameter = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// A stretch of the buffer that is reduced as a whole, in elements.
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
///         table that two stages hold is a bucket of its own.
/// Source: megatron/core/distributed/param_and_grad_buffer.py.
struct GradientBuffer {
  const Chunk* chunk = nullptr;
  bool expert = false;
  Axis ranks;  ///< That hold the same parameters.
  torch::Tensor parameters;
  torch::Tensor gradients;
  std::vector<Slot> slots;
  std::vector<Bucket> buckets;
};

/// The buffers of a chunk: dense parameters, then experts. Moves the parameters into theirs.
/// `first_chunk`: buckets are cut only on the first chunk of the first stage.
[[nodiscard]] std::vector<GradientBuffer> make_buffers(const Context& context, const Chunk& chunk,
                                                       bool first_chunk);

}  // namespace headroom::ir::megatron
