#include "costmodel/hardware/topology.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <numeric>
#include <optional>

#include "costmodel/hardware/catalogue.h"
#include "model_ir/base/check.h"
#include "model_ir/json/json_reader.h"

namespace headroom::cost {
namespace {

constexpr ir::NumberRange kLinkShare = {.least = 1e-4, .greatest = 2};
constexpr ir::NumberRange kTime = {.least = 0, .greatest = 0.1};
constexpr ir::NumberRange kChunks = {.least = 0, .greatest = 16};
constexpr ir::IntegerRange kDevices = {.least = 1, .greatest = 1024};

/// How one axis of a group is placed on nodes with `devices` devices.
GroupPlacement axis_placement(std::int64_t size, std::int64_t stride, std::int64_t devices) {
  GroupPlacement axis{.ranks = size};
  if (size == 1) {
    return axis;
  }
  if (stride >= devices) {
    axis.nodes = size;  // No two ranks are on one node.
    return axis;
  }
  axis.crowd = stride;
  const std::int64_t seats = std::max<std::int64_t>(devices / stride, 1);
  if (devices % stride == 0 && seats % size == 0) {
    axis.most = axis.fewest = size;
  } else if (devices % stride == 0 && size % seats == 0) {
    axis.nodes = size / seats;
    axis.most = axis.fewest = seats;
  } else {
    // Groups begin at multiples of their size, so a node's edge can cut a group at any multiple of
    // the greatest common divisor of size and seats.
    axis.fewest = devices % stride == 0 ? std::gcd(size, seats) : 1;
    axis.most = std::min(seats, std::max<std::int64_t>(size - axis.fewest, 1));
    axis.nodes = ceil_div(size - axis.fewest, seats) + 1;
  }
  return axis;
}

Pace read_pace(const ir::JsonObject& group, BytesPerSecond peak) {
  return {.base = Seconds{group.number("base_seconds", kTime)},
          .hop = Seconds{group.number("hop_seconds", kTime)},
          .rate = group.number("share", kLinkShare) * peak};
}

}  // namespace

Fabric derived_fabric(const LinkSpec& link) {
  // NVIDIA/nccl 2.30.7, src/graph/tuning.cc: base latencies of rings by protocol, the steps of LL
  // and LL128 over NVLink, and the shares of the rate that their flags leave (1/2 and 0.92).
  Fabric fabric;
  fabric.ring[0] = {Seconds{6.6e-6}, Seconds{0.6e-6}, 0.5 * link.bandwidth};
  fabric.ring[1] = {Seconds{14.0e-6}, Seconds{1.9e-6}, 0.92 * link.bandwidth};
  fabric.ring[2] = {Seconds{8.4e-6}, link.latency, link.bandwidth};
  fabric.exchange = fabric.ring[2];
  fabric.small_exchange = fabric.ring[0];
  fabric.note =
      "no measurements over " + link.name + ": its rate, and the latencies of NCCL's tables";
  return fabric;
}

Result<Fabric> read_fabric(const std::string& path, const LinkSpec& link) {
  const Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return reader.error();
  }
  const ir::JsonObject root = reader->root();
  root.accept("$schema");
  const std::string name = root.text("link");
  if (name != link.name) {
    root.refuse("link", "the name of the link, " + link.name);
  }
  if (root.text("source").empty()) {
    root.refuse("source", "a document, a log or a derivation");
  }
  Fabric fabric;
  fabric.ring[0] = read_pace(root.object("ring_ll"), link.peak);
  fabric.ring[1] = read_pace(root.object("ring_ll128"), link.peak);
  fabric.ring[2] = read_pace(root.object("ring_simple"), link.peak);
  fabric.exchange = read_pace(root.object("exchange"), link.peak);
  fabric.small_exchange = read_pace(root.object("small_exchange"), link.peak);
  fabric.own_gather = root.number("own_gather_chunks", kChunks);
  fabric.own_reduce = root.number("own_reduce_chunks", kChunks);
  fabric.own_exchange = root.number("own_exchange_chunks", kChunks);
  if (const std::optional<ir::JsonObject> multicast = root.optional_object("multicast")) {
    fabric.multicast = read_pace(*multicast, link.peak);
    fabric.multicast_least = static_cast<int>(multicast->integer("least_devices", kDevices));
  }
  if (const std::optional<ir::JsonObject> domain = root.optional_object("domain")) {
    fabric.domain = static_cast<int>(domain->integer("devices", kDevices));
    fabric.reduced_across = domain->number("all_reduce_share_across", kLinkShare) * link.peak;
    fabric.gathered_across = domain->number("all_gather_share_across", kLinkShare) * link.peak;
    fabric.scattered_across = domain->number("reduce_scatter_share_across", kLinkShare) * link.peak;
    fabric.between = domain->number("share_between", kLinkShare) * link.peak;
    fabric.exchanged = domain->number("share_exchanged", kLinkShare) * link.peak;
  }
  if (const std::optional<ir::JsonObject> channels = root.optional_object("channels")) {
    fabric.channels = static_cast<int>(channels->integer("number", kDevices));
    if (channels->text("source").empty()) {
      channels->refuse("source", "a document, a log or a derivation");
    }
  }
  Status status = reader->finish_refusing_unknown_keys();
  if (!status) {
    return std::move(status).error();
  }
  return fabric;
}

Network network_at(BytesPerSecond signalling) {
  return {.rate = 0.85 * signalling, .adapters_per_device = 1};
}

Result<Topology> topology_of(const std::string& config_dir, const NodeSpec& node) {
  const Result<LinkSpec> intra = load_link(config_dir, node.intra_link);
  if (!intra) {
    return Error(intra.error()).with_note("the link inside " + node.name);
  }
  const Result<LinkSpec> inter = load_link(config_dir, node.inter_link);
  if (!inter) {
    return Error(inter.error()).with_note("the link between nodes like " + node.name);
  }
  const std::string path = config_dir + "/performance/links/" + intra->name + ".json";
  Topology topology;
  topology.devices_per_node = node.devices;
  topology.network = {.rate = inter->bandwidth, .adapters_per_device = node.adapters_per_device};
  if (!std::filesystem::exists(path)) {
    topology.fabric = derived_fabric(*intra);
    return topology;
  }
  Result<Fabric> fabric = read_fabric(path, *intra);
  if (!fabric) {
    return std::move(fabric).error();
  }
  topology.fabric = std::move(fabric).value();
  return topology;
}

namespace {

/// The devices of a domain that ranks fill in order. A domain of 72 holds no whole number of groups
/// over 16, 32 or 64 ranks. A job with such groups is assumed to get 64 devices of each domain, so
/// that no group spans two domains; no publication says how jobs were placed.
std::int64_t segment_for(std::int64_t extent, std::int64_t devices) {
  constexpr std::int64_t kLargestNode = 16;  // Larger nodes are many trays behind one switch.
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(devices)));
  const bool cut = devices > kLargestNode && devices % extent != 0 && power % extent == 0;
  return cut ? power : devices;
}

}  // namespace

GroupPlacement placement_of(const Topology& topology, const ir::RankGroup& group) {
  HEADROOM_ASSERT(group.size > 0 && group.stride > 0);
  HEADROOM_ASSERT(group.outer_size > 0 && group.outer_stride > 0);
  const std::int64_t devices = topology.devices_per_node;
  const GroupPlacement inner =
      axis_placement(group.size, group.stride, segment_for(group.size * group.stride, devices));
  const GroupPlacement outer =
      axis_placement(group.outer_size, group.outer_stride,
                     segment_for(group.outer_size * group.outer_stride, devices));
  return {.ranks = inner.ranks * outer.ranks,
          .nodes = inner.nodes * outer.nodes,
          .most = inner.most * outer.most,
          .fewest = inner.fewest * outer.fewest,
          .crowd = group.size > 1 ? inner.crowd : outer.crowd};
}

}  // namespace headroom::cost
