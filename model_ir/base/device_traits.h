#pragma once

namespace headroom {

/// What of a GPU changes which kernels and workspaces a framework picks. Compute capability is
/// written as NVIDIA writes it: 9.0 is {9, 0}.
struct DeviceTraits {
  int compute_major = 9;
  int compute_minor = 0;
  int multiprocessors = 132;
  friend bool operator==(const DeviceTraits&, const DeviceTraits&) = default;
};

}  // namespace headroom
