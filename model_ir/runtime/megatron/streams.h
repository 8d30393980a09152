#pragma once

#include <cstdint>

#include "model_ir/runtime/torch/eager.h"

/// Streams that a process has beside the compute stream and those of its communicators.
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

/// Runs what follows on another stream, for a scope.
class OnStream {
 public:
  OnStream(torch::Eager& eager, StreamId stream)
      : eager_(eager), before_(eager.exchange_stream(stream)) {}
  ~OnStream() { eager_.exchange_stream(before_); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  torch::Eager& eager_;
  StreamId before_;
};

}  // namespace headroom::ir::megatron
