#pragma once

#include <cstdint>

#include "model_ir/plan/rank_program.h"

/// Streams of a process other than the compute stream and those of its communicators.
namespace headroom::ir::megatron {

/// The stream that context parallelism has beside the current one.
inline constexpr StreamId kContextStream = 2;

/// Every layer's shared experts have one, of the 32 that PyTorch deals out.
/// Source: c10/cuda/CUDAStream.cpp, kStreamsPerPool; moe/shared_experts.py, self.stream.
[[nodiscard]] constexpr StreamId shared_expert_stream(std::int32_t layer) {
  constexpr std::int32_t kFirst = 3;
  constexpr std::int32_t kStreams = 32;
  return static_cast<StreamId>(kFirst + layer % kStreams);
}

/// What --offload-modules names leaves on the one and comes back on the other. Layers that are
/// offloaded whole go both ways on the first.
inline constexpr StreamId kOffloadStream = 35;
inline constexpr StreamId kReloadStream = 36;

}  // namespace headroom::ir::megatron
