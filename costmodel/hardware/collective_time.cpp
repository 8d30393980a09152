#include "costmodel/hardware/collective_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model_ir/base/check.h"
#include "model_ir/plan/device_work.h"

namespace headroom::cost {
namespace {

// NVIDIA/nccl 2.30.7, src/graph/tuning.cc, ncclTunerConstantsDefaults: microseconds by protocol.
constexpr std::array<double, kProtocols> kTreeBase = {6.8, 14.0, 8.4};
constexpr std::array<double, kProtocols> kTreeHop = {0.6, 1.25, 4.0};  // NVLink
constexpr std::array<double, kProtocols> kTreeNetworkHop = {5.0, 8.5, 14.0};
constexpr std::array<double, kProtocols> kRingNetworkHop = {2.7, 4.0, 14.0};
constexpr double kMulticastNetworkHop = 20.9;  // NVLS tree
// The share of a ring's rate across nodes that remains with the flags of LL and LL128.
constexpr std::array<double, kProtocols> kNetworkShare = {0.5, 0.92, 1.0};
// Maximum of LL across nodes, in bytes per second, for every link (llMaxBws, more than two nodes).
constexpr double kNetworkLLRate = 20e9;
constexpr double kTreeShare = 0.92;  // Share of a ring's rate.
// "plateau effect of ring": large all-reduces over several nodes have longer steps.
constexpr double kRingPlateau = 1.4;

constexpr double kMicro = 1e-6;

/// Bandwidth of a node's adapters for this group.
double network_rate(const Topology& topology, const GroupPlacement& group) {
  return topology.network.rate.value() * topology.network.adapters_per_device *
         static_cast<double>(group.fewest);
}

/// The rate after the overhead of the protocol's flags.
double protocol_rate(const Topology& topology, const GroupPlacement& group, std::size_t protocol) {
  const double rate = kNetworkShare[protocol] * network_rate(topology, group);
  return protocol == 0 ? std::min(rate, kNetworkLLRate) : rate;
}

/// Whether the group's ranks on one node are in several PCIe domains.
bool crosses(const Fabric& fabric, const GroupPlacement& group) {
  return fabric.domain > 0 && group.most * group.crowd > fabric.domain;
}

/// Rate of one ring between PCIe domains.
BytesPerSecond rate_across(const Fabric& fabric, ir::CollectiveKind kind) {
  switch (kind) {
    case ir::CollectiveKind::kAllReduce:
    case ir::CollectiveKind::kReduce:
      return fabric.reduced_across;
    case ir::CollectiveKind::kReduceScatter:
      return fabric.scattered_across;
    default:
      return fabric.gathered_across;
  }
}

/// Rate of a ring inside a node. If it leaves a PCIe domain, it shares the link out of the domain.
double fabric_rate(const Fabric& fabric, const GroupPlacement& group, ir::CollectiveKind kind,
                   BytesPerSecond rate) {
  if (!crosses(fabric, group)) {
    return rate.value();
  }
  const double shared = fabric.between.value() / static_cast<double>(group.crowd);
  return std::min({rate.value(), rate_across(fabric, kind).value(), shared});
}

/// The part of an all-to-all between PCIe domains: all ranks of one domain send to all ranks of the
/// others.
double crossing_seconds(const Fabric& fabric, const GroupPlacement& group, double bytes) {
  if (!crosses(fabric, group)) {
    return 0;
  }
  const double domain = static_cast<double>(fabric.domain);
  const double inside = domain / static_cast<double>(group.crowd);  // Bytes of one group.
  const double leaving = 1 - inside / static_cast<double>(group.most);
  return domain * bytes * leaving / fabric.exchanged.value();
}

/// Steps of a ring, the chunks of 1/n that each rank sends, and the chunks that it moves locally.
struct RingWork {
  double steps;
  double sent;
  double own;
};
RingWork ring_work(const Fabric& fabric, ir::CollectiveKind kind, double ranks) {
  switch (kind) {
    case ir::CollectiveKind::kAllReduce:
      return {2 * (ranks - 1), 2 * (ranks - 1), fabric.own_reduce};
    case ir::CollectiveKind::kAllGather:
    case ir::CollectiveKind::kReduceScatter:
      return {ranks - 1, ranks - 1, fabric.own_gather};
    case ir::CollectiveKind::kBroadcast:  // The whole buffer passes every rank in a pipeline.
    case ir::CollectiveKind::kReduce:
      return {ranks - 1, ranks, 0};
    case ir::CollectiveKind::kAllToAll:
    case ir::CollectiveKind::kSend:
    case ir::CollectiveKind::kReceive:
    case ir::CollectiveKind::kTokenExchange:
      return {ranks - 1, ranks - 1, fabric.own_exchange};
  }
  return {ranks - 1, ranks, 0};
}

double ring_seconds(const Topology& topology, const GroupPlacement& group,
                    const ir::CollectiveShape& shape, std::size_t protocol) {
  const Pace& pace = topology.fabric.ring[protocol];
  const double ranks = static_cast<double>(group.ranks);
  const RingWork work = ring_work(topology.fabric, shape.kind, ranks);
  const double chunk = static_cast<double>(shape.bytes) / ranks;
  double moving =
      chunk * (work.sent + work.own) / fabric_rate(topology.fabric, group, shape.kind, pace.rate);
  double latency = pace.base.value() + work.steps * pace.hop.value();
  if (group.nodes > 1) {
    moving = std::max(moving, chunk * work.sent / protocol_rate(topology, group, protocol));
    const bool twice = shape.kind == ir::CollectiveKind::kAllReduce;
    const double crossings = static_cast<double>((twice ? 2 : 1) * (group.nodes - 1));
    // With one rank per node, nothing hides the network's latency, so the tree's latency counts.
    const double hop = group.most == 1 ? kTreeNetworkHop[protocol] : kRingNetworkHop[protocol];
    latency += crossings * (hop * kMicro - pace.hop.value());
    const bool plateau = twice && protocol == kProtocols - 1;
    latency *= plateau ? kRingPlateau : 1;
  }
  return latency + moving;
}

/// All-reduce over several nodes: chains inside nodes, two binary trees between them.
double tree_seconds(const Topology& topology, const GroupPlacement& group,
                    const ir::CollectiveShape& shape, std::size_t protocol) {
  const Pace& pace = topology.fabric.ring[protocol];
  double rate = std::min(fabric_rate(topology.fabric, group, shape.kind, pace.rate),
                         kTreeShare * kNetworkShare[protocol] * network_rate(topology, group));
  rate = protocol == 0 ? std::min(rate, kNetworkLLRate) : rate;
  const double levels = std::log2(static_cast<double>(group.nodes));
  const double latency =
      kTreeBase[protocol] + 2 * (static_cast<double>(group.most - 1) * kTreeHop[protocol] +
                                 levels * kTreeNetworkHop[protocol]);
  return latency * kMicro + 2 * static_cast<double>(shape.bytes) / rate;
}

/// All-reduce in each node's switches, and over trees between the nodes.
double multicast_seconds(const Topology& topology, const GroupPlacement& group,
                         const ir::CollectiveShape& shape) {
  const Pace& pace = topology.fabric.multicast;
  const double ranks = static_cast<double>(group.most);
  const double bytes = static_cast<double>(shape.bytes);
  double latency = pace.base.value() + ranks * pace.hop.value();
  double moving = 2 * (ranks - 1) / ranks * bytes / pace.rate.value();
  if (group.nodes > 1) {
    latency += 2 * std::log2(static_cast<double>(group.nodes)) * kMulticastNetworkHop * kMicro;
    moving = std::max(moving, 2 * bytes / network_rate(topology, group));
  }
  return latency + moving;
}

double ring_or_tree_seconds(const Topology& topology, const GroupPlacement& group,
                            const ir::CollectiveShape& shape) {
  const bool trees = shape.kind == ir::CollectiveKind::kAllReduce && group.nodes > 1;
  double best = ring_seconds(topology, group, shape, kProtocols - 1);
  for (std::size_t protocol = 0; protocol + 1 < kProtocols; ++protocol) {
    best = std::min(best, ring_seconds(topology, group, shape, protocol));
  }
  for (std::size_t protocol = 0; trees && protocol < kProtocols; ++protocol) {
    best = std::min(best, tree_seconds(topology, group, shape, protocol));
  }
  const bool multicast = shape.kind == ir::CollectiveKind::kAllReduce &&
                         topology.fabric.multicast.rate > BytesPerSecond{0} &&
                         group.most >= topology.fabric.multicast_least;
  return multicast ? std::min(best, multicast_seconds(topology, group, shape)) : best;
}

/// Every rank sends to every other rank: `chunk` bytes to each rank of its node over the fabric,
/// while `leaving` bytes pass the adapters.
double exchange_seconds(const Topology& topology, const GroupPlacement& group, double chunk,
                        double leaving) {
  const Fabric& fabric = topology.fabric;
  const double local = static_cast<double>(group.most);
  const auto inside = [&](const Pace& pace) {
    return pace.base.value() + (local - 1) * pace.hop.value() +
           chunk * (local - 1 + fabric.own_exchange) / pace.rate.value();
  };
  const double on_node = std::max(std::min(inside(fabric.exchange), inside(fabric.small_exchange)),
                                  crossing_seconds(fabric, group, local * chunk));
  if (group.nodes == 1) {
    return on_node;
  }
  const double each = topology.network.rate.value() * topology.network.adapters_per_device;
  const double latency = fabric.exchange.base.value() + kRingNetworkHop[kProtocols - 1] * kMicro;
  return std::max(on_node, latency + leaving / each);
}

double all_to_all_seconds(const Topology& topology, const GroupPlacement& group, double bytes) {
  const double chunk = bytes / static_cast<double>(group.ranks);
  return exchange_seconds(topology, group, chunk,
                          chunk * static_cast<double>(group.ranks - group.fewest));
}

/// A token crosses the network once per other node, and the fabric once per rank there.
double token_exchange_seconds(const Topology& topology, const GroupPlacement& group,
                              const ir::CollectiveShape& shape) {
  const double bytes = static_cast<double>(shape.bytes);
  const double nodes = static_cast<double>(group.nodes);
  const double chunk = bytes * nodes * ir::reached_share(shape, static_cast<double>(group.ranks));
  return exchange_seconds(topology, group, chunk,
                          bytes * (nodes - 1) * ir::reached_share(shape, nodes));
}

/// Send to the neighbour `stride` away. It uses the network if any pair of neighbours is on two
/// nodes.
double neighbour_seconds(const Topology& topology, const GroupPlacement& group,
                         const ir::CollectiveShape& shape) {
  const double bytes = static_cast<double>(shape.bytes);
  const Fabric& fabric = topology.fabric;
  const auto inside = [&](const Pace& pace) {
    return pace.base.value() + pace.hop.value() +
           bytes / fabric_rate(fabric, group, shape.kind, pace.rate);
  };
  if (group.nodes == 1) {
    return std::min(inside(fabric.exchange), inside(fabric.small_exchange));
  }
  const double each = topology.network.rate.value() * topology.network.adapters_per_device;
  return fabric.exchange.base.value() + kRingNetworkHop[kProtocols - 1] * kMicro + bytes / each;
}

}  // namespace

Seconds collective_time(const Topology& topology, const ir::CollectiveShape& shape) {
  HEADROOM_ASSERT(shape.bytes >= 0);
  const GroupPlacement group = placement_of(topology, shape.group);
  if (group.ranks == 1) {
    return Seconds{0};
  }
  switch (shape.kind) {
    case ir::CollectiveKind::kAllReduce:
    case ir::CollectiveKind::kAllGather:
    case ir::CollectiveKind::kReduceScatter:
    case ir::CollectiveKind::kBroadcast:
    case ir::CollectiveKind::kReduce:
      return Seconds{ring_or_tree_seconds(topology, group, shape)};
    case ir::CollectiveKind::kAllToAll:
      return Seconds{all_to_all_seconds(topology, group, static_cast<double>(shape.bytes))};
    case ir::CollectiveKind::kTokenExchange:
      return Seconds{token_exchange_seconds(topology, group, shape)};
    case ir::CollectiveKind::kSend:
    case ir::CollectiveKind::kReceive:
      return Seconds{neighbour_seconds(topology, group, shape)};
  }
  return Seconds{0};
}

}  // namespace headroom::cost
