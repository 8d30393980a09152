#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/units.h"

namespace headroom::cost {

/// A figure with where it was read.
struct Sourced {
  double value = 0;
  std::string source;
  friend bool operator==(const Sourced&, const Sourced&) = default;
};

/// One GPU (one device, as the driver counts devices). Rates are dense, without sparsity.
struct DeviceSpec {
  std::string name;     ///< Catalogue name: "a100-80gb".
  std::string product;  ///< "NVIDIA A100-SXM4-80GB"
  std::string vendor;   ///< "nvidia", "amd", "intel"
  std::vector<std::string> aliases;
  Bytes nominal;        ///< What the box says, base 10.
  Bytes total;          ///< What the device reports to a process (cudaMemGetInfo total).
  std::string total_basis;  ///< "measured" or "derived": how `total` is known.
  DeviceTraits traits;
  BytesPerSecond memory_bandwidth;
  FlopsPerSecond fp32;
  std::optional<FlopsPerSecond> tf32;
  std::optional<FlopsPerSecond> half;  ///< fp16 and bf16 tensor cores.
  bool bf16 = true;                    ///< bf16 arithmetic in hardware.
  std::optional<FlopsPerSecond> fp8;
  std::optional<FlopsPerSecond> fp4;
  std::string link;                    ///< Name of a `LinkSpec`: how it reaches its neighbours.
  double power_watts = 0;
};

/// A link, one direction, after protocol overhead.
struct LinkSpec {
  std::string name;
  BytesPerSecond bandwidth;
  Seconds latency;
};

/// A machine with several GPUs.
struct NodeSpec {
  std::string name;
  std::string device;       ///< Catalogue name of its GPUs.
  int devices = 8;
  std::string intra_link;   ///< Between its GPUs.
  std::string inter_link;   ///< To other nodes, per GPU.
  std::optional<Bytes> host_memory;
};

}  // namespace headroom::cost
