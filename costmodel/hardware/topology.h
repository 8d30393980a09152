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

/// NCCL's protocols: flags with every word, flags with every 128 bytes, and whole chunks behind a
/// barrier; each starts later and moves faster than the one before.
enum class Protocol : std::uint8_t { kLL, kLL128, kSimple };
inline constexpr std::size_t kProtocols = 3;

/// What one way of communicating costs: `base + steps * hop + bytes / rate`.
struct Pace {
  Seconds base;         ///< Before the first byte moves.
  Seconds hop;          ///< For each step from one rank to the next.
  BytesPerSecond rate;  ///< Of each rank, one direction; 0: not available.
};

/// What joins the devices of one node.
struct Fabric {
  std::array<Pace, kProtocols> ring;  ///< By `Protocol`.
  /// Chunks of 1/n that a rank moves besides those it exchanges (its own, from input to output).
  double own_gather = 0;
  double own_reduce = 0;
  Pace exchange;        ///< All-to-all and send and receive.
  Pace small_exchange;  ///< The same for small messages (LL).
  double own_exchange = 0;
  Pace multicast;           ///< All-reduce in the switch (NVLS); rate 0: there is none.
  int multicast_least = 0;  ///< Fewest devices that NCCL uses it for.
  int domain = 0;           ///< Devices behind one PCIe switch or socket; 0: all are alike.
  /// Of one ring from one such domain to the next, by what it does.
  BytesPerSecond reduced_across;    ///< All-reduce.
  BytesPerSecond gathered_across;   ///< All-gather, broadcast, and send and receive.
  BytesPerSecond scattered_across;  ///< Reduce-scatter.
  BytesPerSecond between;           ///< Of several rings together.
  BytesPerSecond exchanged;         ///< Of all-to-alls, all ranks of a domain together.
  /// NCCL's channels, each a block that keeps a multiprocessor to itself while a collective runs;
  /// 0: not known, and none is taken from computing kernels.
  int channels = 0;
  std::string note;  ///< Empty if measured; else what the figures are derived from.
};

/// What joins nodes, as each device of a node has it.
struct Network {
  BytesPerSecond rate;  ///< Of one adapter, one direction, as large messages achieve it.
  double adapters_per_device = 1;
};

/// The network of nodes in which each device has `signalling` of its own, one direction: large
/// messages reach 0.85 of it.
/// Source: stas00/ml-engineering, network/README.md (August 2026): 80 to 92 %.
[[nodiscard]] Network network_at(BytesPerSecond signalling);

/// Where ranks sit: rank r on node r / devices_per_node.
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

/// The fabric of a link that nobody measured: its rate, with the latencies of NCCL's tables.
[[nodiscard]] Fabric derived_fabric(const LinkSpec& link);

/// How a group lies on the nodes.
struct GroupPlacement {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t most = 1;    ///< Ranks on the node that holds most of them.
  std::int64_t fewest = 1;  ///< On the node that holds fewest.
  std::int64_t crowd = 1;   ///< Groups of the same kind that share a node's devices, interleaved.
  friend bool operator==(const GroupPlacement&, const GroupPlacement&) = default;
};

/// Where the worst placed group of this shape lies, of all that tile the ranks from 0 on.
///
/// Model:   a group whose ranks do not fill nodes evenly is modelled by its worst member: as many
///          nodes as it can touch, and the adapters of the node that holds fewest of its ranks. Of
///          a domain of more than 16 devices whose number a group's extent does not divide, but
///          does divide the power of two below it, only those are filled (64 of 72).
/// Shapes:  Requires positive sizes and strides.
[[nodiscard]] GroupPlacement placement_of(const Topology& topology, const ir::RankGroup& group);

}  // namespace headroom::cost
