#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace headroom::standin {

/// What was asked of the device since the counters were read last.
struct Work {
  std::uint64_t kernels = 0;  ///< Launches; calls of cuBLAS count as matrix products alone.
  std::uint64_t gemms = 0;
  double gemm_flops = 0;
  std::uint64_t uploaded = 0;  ///< Bytes, host to device.
  std::uint64_t downloaded = 0;
  std::uint64_t copied = 0;  ///< Bytes within and between devices.

  struct Collective {
    std::uint64_t calls = 0;
    std::uint64_t bytes = 0;  ///< Of the full (gathered, unsharded) buffers.
  };
  /// By operation and size of the group.
  std::map<std::pair<std::string, int>, Collective> collectives;

  [[nodiscard]] std::string to_json() const;
};

/// `text` between quotation marks, for JSON.
std::string json_string(const std::string& text);

}  // namespace headroom::standin
