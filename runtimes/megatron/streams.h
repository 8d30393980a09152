#pragma once

#include <cstdint>

#include "model_ir/plan/rank_program.h"

/// Streams of a process other than the compute stream and those of its communicators.
namespace headroom::ir::megatron {

/// The second stream of context parallelism, besides the current one.
inline constexpr StreamId kContextStream = 2;

/// The stream of a layer's shared experts, one of the 32 in PyTorch's stream pool.
/// Source: c10/cuda/CUDAStream.cpp, kStreamsPerPool; moe/shared_experts.py, self.stream.
[[nodiscard]] constexpr StreamId shared_expert_stream(std::int32_t layer) {
  constexpr std::int32_t kFirst = 3;
  constexpr std::int32_t kStreams = 32;
  return static_cast<StreamId>(kFirst + layer % kStreams);
}

/// Tensors of --offload-modules are offloaded on the first stream and reloaded on the second.
/// Layers that are offloaded whole use the first stream for both.
inline constexpr StreamId kOffloadStream = 35;
inline constexpr StreamId kReloadStream = 36;

/// Parts of layers that send tokens to experts and back, if they overlap with other micro-batches.
/// Source: megatron/core/pipeline_parallel/utils.py, get_comm_stream.
inline constexpr StreamId kExchangeStream = 37;

}  // namespace headroom::ir::megatron
