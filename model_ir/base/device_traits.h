#pragma once

#include <cstdint>

namespace headroom {

/// The properties of a GPU that change what a framework does: which kernels and workspaces it
/// picks, and what it moves to the host for lack of memory. Compute capability is written as NVIDIA
/// writes it: 9.0 is {9, 0}. An AMD GPU has the version that PyTorch prints instead (gfx942 is
/// {9, 4}), which says nothing about NVIDIA's features.
struct DeviceTraits {
  int compute_major = 9;
  int compute_minor = 0;
  int multiprocessors = 132;
  std::int64_t memory_bytes = 0;  ///< Memory that PyTorch's allocator can use; 0: no limit.
  bool rocm = false;              ///< PyTorch is a ROCm build, for an AMD GPU.
  friend bool operator==(const DeviceTraits&, const DeviceTraits&) = default;
};

}  // namespace headroom
