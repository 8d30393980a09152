#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/units.h"

namespace headroom::cost {

/// The host of a node: what its ranks share besides the GPUs.
struct HostSpec {
  std::string node;  ///< Catalogue name of the node type; empty if there is none.
  Bytes memory;      ///< Host memory of the node; of each rank if `memory_per_rank`.
  bool memory_per_rank = false;
  int devices = 8;                          ///< Ranks that a node has at most.
  int cores = 0;                            ///< Physical CPU cores; 0: not known.
  BytesPerSecond memory_bandwidth{0};       ///< Peak of the CPUs' memory; 0: not known.
  std::optional<Bytes> nvme;                ///< Size of the node's drives together.
  std::optional<BytesPerSecond> nvme_rate;  ///< Sequential reads of the drives together.
  std::string note;                         ///< What is assumed; empty if nothing is.
  friend bool operator==(const HostSpec&, const HostSpec&) = default;
};

/// One GPU (one device, as the driver counts devices: half an MI250X). Rates are dense, without
/// sparsity, and accumulate in fp32. The source of every figure is in the entry's file
/// (`configs/hardware`), not here.
struct DeviceSpec {
  std::string name;          ///< Catalogue name: "a100-80gb".
  std::string product;       ///< "NVIDIA A100-SXM4-80GB"
  std::string vendor;        ///< "nvidia", "amd", "intel"
  std::string architecture;  ///< "ampere", "cdna3"
  std::vector<std::string> aliases;
  Bytes nominal;                      ///< What the box says, base 10.
  std::optional<Bytes> driver_total;  ///< What nvidia-smi or a similar tool lists.
  Bytes total;               ///< What the device reports to a process (cudaMemGetInfo total).
  std::string total_basis;   ///< "measured" or "derived": how `total` is known.
  std::string total_source;  ///< Where it was read, or from what it was derived.
  DeviceTraits traits;       ///< Compute capability 0.0: not a CUDA device.
  BytesPerSecond memory_bandwidth;
  FlopsPerSecond fp32;
  std::optional<FlopsPerSecond> tf32;
  std::optional<FlopsPerSecond> half;  ///< fp16 and bf16 tensor cores.
  bool bf16 = true;                    ///< bf16 arithmetic in hardware.
  std::optional<FlopsPerSecond> fp8;
  std::optional<FlopsPerSecond> fp4;
  std::string link;         ///< Name of the `LinkSpec` to neighbouring devices.
  bool peer_access = true;  ///< Peer-to-peer: it can read the memory of its neighbours.
  std::string host_link;    ///< Name of the `LinkSpec` to the host's memory.
  double power_watts = 0;
  std::string performance_file;  ///< File whose member "performance" has what this very GPU
                                 ///< achieves (`headroom calibrate`); empty: configs/performance.
  /// The host that the device stands in, if the host's memory counts; the catalogue's entries have
  /// none (`with_host`).
  std::optional<HostSpec> host{};
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// A link between devices, or between a device and its host, in one direction.
struct LinkSpec {
  std::string name;
  std::string title;         ///< "NVLink 4, 18 links"
  BytesPerSecond peak;       ///< The vendor's figure.
  BytesPerSecond bandwidth;  ///< What large messages achieve, after protocol overhead.
  Seconds latency;           ///< Per hop of a ring.
  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

/// A machine with several GPUs.
struct NodeSpec {
  std::string name;
  std::string title;   ///< "NVIDIA DGX H100"
  std::string device;  ///< Catalogue name of its GPUs.
  int devices = 8;
  std::string intra_link;          ///< Between its GPUs.
  std::string inter_link;          ///< To other nodes, one adapter.
  double adapters_per_device = 1;  ///< Adapters of `inter_link` per GPU; 0.5: two GPUs share one.
  std::optional<Bytes> host_memory;
  std::optional<int> devices_per_host{};  ///< If the node has several hosts; otherwise all.
  std::optional<int> cpu_cores{};         ///< Physical.
  std::optional<BytesPerSecond> host_memory_bandwidth{};  ///< Peak of all channels.
  std::optional<Bytes> nvme{};                            ///< Size of the drives for data.
  std::optional<BytesPerSecond> nvme_rate{};  ///< Sequential reads of these drives together.
  friend bool operator==(const NodeSpec&, const NodeSpec&) = default;
};

}  // namespace headroom::cost
