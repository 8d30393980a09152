#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"

namespace headroom::cost {

/// NCCL's protocols: LL sends a flag with every word, LL128 a flag per 128 bytes, Simple whole
/// chunks with a barrier. Each has a higher latency and a higher rate than the one before.
enum class Protocol : std::uint8_t { kLL, kLL128, kSimple };
inline constexpr std::size_t kProtocols = 3;

/// Cost of one way of communicating: `base + steps * hop + bytes / rate`.
struct Pace {
  Seconds base;         ///< Before the first byte moves.
  Seconds hop;          ///< For each step from one rank to the next.
  BytesPerSecond rate;  ///< Rate of each rank in one direction; 0: not available.
};

/// What joins the devices of one node.
struct Fabric {
  std::array<Pace, kProtocols> ring;  ///< By `Protocol`.
  /// Chunks of 1/n that a rank moves locally (its own, from input to output) in addition to those
  /// that it exchanges.
  double own_gather = 0;
  double own_reduce = 0;
  Pace exchange;        ///< All-to-all and send and receive.
  Pace small_exchange;  ///< The same for small messages (LL).
  double own_exchange = 0;
  Pace multicast;           ///< All-reduce in the switch (NVLS); rate 0: not available.
  int multicast_least = 0;  ///< Least number of devices with which NCCL uses it.
  int domain = 0;           ///< Devices behind one PCIe switch or socket; 0: no domains.
  /// Rates of one ring from one such domain to the next, by collective.
  BytesPerSecond reduced_across;    ///< All-reduce.
  BytesPerSecond gathered_across;   ///< All-gather, broadcast, and send and receive.
  BytesPerSecond scattered_across;  ///< Reduce-scatter.
  BytesPerSecond between;           ///< Rate of several rings together.
  BytesPerSecond exchanged;         ///< Rate of all-to-alls, all ranks of a domain together.
  /// NCCL's channels. Each is a thread block that occupies a multiprocessor while a collective
  /// runs. 0: not known, and computing kernels lose none.
  int channels = 0;
  std::string note;  ///< Empty if measured; otherwise what the figures are derived from.
};

/// The network between nodes, as each device of a node sees it.
struct Network {
  BytesPerSecond rate;  ///< Rate of one adapter in one direction for large messages.
  double adapters_per_device = 1;
};

/// A network in which each device has `signalling` of its own in one direction; large messages
/// reach 0.85 of it.
/// Source: stas00/ml-engineering, network/README.md (August 2026): 80 to 92 %.
[[nodiscard]] Network network_at(BytesPerSecond signalling);

/// Placement of ranks: rank r is on node r / devices_per_node.
struct Topology {
  int devices_per_node = 8;
  Fabric fabric = {};
  Network network = {};
};

/// The topology of nodes like `node`, with its links read from the catalogue and their measured
/// rates from `configs/performance/links`.
///
/// Errors:  kInvalidArgument for a link that is not known; kInvalidInput for a rate that is zero or
///          negative, or another fault of a file.
[[nodiscard]] Result<Topology> topology_of(const std::string& config_dir, const NodeSpec& node);

/// Reads `configs/performance/links/NAME.json`, or a file of that form.
///
/// Errors:  as `topology_of`.
[[nodiscard]] Result<Fabric> read_fabric(const std::string& path, const LinkSpec& link);

/// The fabric of a link that was not measured: its rate, with the latencies of NCCL's tables.
[[nodiscard]] Fabric derived_fabric(const LinkSpec& link);

/// How a group is placed on the nodes.
struct GroupPlacement {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t most = 1;    ///< Ranks on the node that has most of them.
  std::int64_t fewest = 1;  ///< Ranks on the node that has fewest.
  std::int64_t crowd = 1;   ///< Interleaved groups of the same kind that share a node's devices.
  friend bool operator==(const GroupPlacement&, const GroupPlacement&) = default;
};

/// Placement of the worst placed group of this shape, among all groups that tile the ranks from 0.
///
/// Model:   a group whose ranks do not fill nodes evenly is modelled by its worst member: as many
///          nodes as it can touch, and the adapters of the node that holds fewest of its ranks. In
///          a domain of more than 16 devices, only a power of two of them is filled (64 of 72) if
///          the group's extent divides that power of two but not the domain.
/// Shapes:  Requires positive sizes and strides.
[[nodiscard]] GroupPlacement placement_of(const Topology& topology, const ir::RankGroup& group);

}  // namespace headroom::cost
