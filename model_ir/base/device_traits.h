#pragma once

#include <cstdint>

namespace headroom {

/// What of a GPU changes what a framework does: which kernels and workspaces it picks, and what it
/// moves to the host for want of room. Compute capability is written as NVIDIA writes it: 9.0 is
/// {9, 0}.
struct DeviceTraits {
  int compute_major = 9;
  int compute_minor = 0;
  int multiprocessors = 132;
  std::int64_t memory_bytes = 0;  ///< What PyTorch's allocator can have of it; 0: no limit.
  friend bool operator==(const DeviceTraits&, const DeviceTraits&) = default;
};

}  // namespace headroom
