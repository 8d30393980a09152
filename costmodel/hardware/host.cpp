#include "costmodel/hardware/host.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "costmodel/hardware/catalogue.h"

namespace headroom::cost {
namespace {

constexpr Bytes kLeastAssumed{64 * kGiB};

bool is_cloud(const NodeSpec& node) {
  return std::ranges::any_of(std::array{"aws-", "azure-", "gcp-"},
                             [&node](const char* prefix) { return node.name.starts_with(prefix); });
}

/// Twice the GPU's memory, in whole multiples of 64 GiB as memory modules come.
Bytes assumed_memory(const DeviceSpec& device) {
  const Bytes twice = 2 * device.total;
  return ceil_div(twice.value(), kLeastAssumed.value()) * kLeastAssumed;
}

}  // namespace

Result<std::optional<NodeSpec>> find_node(const std::string& config_dir, const DeviceSpec& device,
                                          const std::optional<std::string>& name) {
  if (name) {
    Result<NodeSpec> node = load_node(config_dir, *name);
    if (!node) {
      return std::move(node).error();
    }
    if (node->device != device.name) {
      return Error::invalid_argument("node", *name + ", a node with " + node->device,
                                     "a node type with " + device.name);
    }
    return std::optional(std::move(node).value());
  }
  Result<std::vector<NodeSpec>> found = nodes_with(config_dir, device.name);
  if (!found) {
    return std::move(found).error();
  }
  std::vector<NodeSpec> nodes = std::move(found).value();
  std::ranges::stable_sort(nodes, {}, is_cloud);
  return nodes.empty() ? std::optional<NodeSpec>() : std::optional(std::move(nodes.front()));
}

HostSpec host_of(const DeviceSpec& device, const std::optional<NodeSpec>& node) {
  HostSpec host;
  std::int64_t hosts = 1;  // Hosts of the node.
  if (node) {
    host.node = node->name;
    host.devices = node->devices_per_host.value_or(node->devices);
    hosts = std::max(1, node->devices / host.devices);
    const double share = 1.0 / static_cast<double>(hosts);
    host.cores = static_cast<int>(node->cpu_cores.value_or(0) / hosts);
    host.memory_bandwidth = share * node->host_memory_bandwidth.value_or(BytesPerSecond{0});
    if (node->nvme_rate) {
      host.nvme_rate = share * *node->nvme_rate;
    }
    if (node->nvme) {
      host.nvme = Bytes{node->nvme->value() / hosts};
    }
  }
  if (node && node->host_memory) {
    host.memory = Bytes{node->host_memory->value() / hosts};
    return host;
  }
  host.memory_per_rank = true;
  host.memory = assumed_memory(device);
  host.note = "no host memory is known of a node with " + device.name + ": " +
              to_text(host.memory) + " for each GPU are assumed (--host-memory)";
  return host;
}

Result<DeviceSpec> with_host(const std::string& config_dir, DeviceSpec device,
                             const std::optional<std::string>& node) {
  const Result<std::optional<NodeSpec>> found = find_node(config_dir, device, node);
  if (!found) {
    return found.error();
  }
  device.host = host_of(device, *found);
  return device;
}

std::string node_named(const std::string& config_dir, const std::string& text) {
  if (text.find(' ') == std::string::npos) {
    return text;  // A name; titles are several words.
  }
  const Result<std::vector<NodeSpec>> nodes = list_nodes(config_dir);
  if (!nodes) {
    return text;
  }
  const auto found = std::ranges::find(*nodes, text, &NodeSpec::title);
  return found == nodes->end() ? text : found->name;
}

Result<DeviceSpec> in_host(const std::string& config_dir, DeviceSpec device,
                           const HostRequest& request) {
  std::optional<std::string> node = request.node;
  if (node) {
    node = node_named(config_dir, *node);
  }
  Result<DeviceSpec> placed = with_host(config_dir, device, node);
  if (!placed && node) {
    return placed;
  }
  if (placed) {
    device = std::move(placed).value();
  } else {
    device.host = host_of(device, std::nullopt);
  }
  HostSpec& host = *device.host;
  if (request.memory) {
    host.memory = *request.memory;
    host.memory_per_rank = false;
    host.node.clear();
    host.note.clear();
  }
  host.nvme = request.nvme ? request.nvme : host.nvme;
  host.nvme_rate = request.nvme_rate ? request.nvme_rate : host.nvme_rate;
  return device;
}

}  // namespace headroom::cost
