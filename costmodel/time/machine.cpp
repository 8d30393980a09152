#include "costmodel/time/machine.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/work_time.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

bool is_cloud(const NodeSpec& node) {
  return std::ranges::any_of(std::array{"aws-", "azure-", "gcp-"},
                             [&node](const char* prefix) { return node.name.starts_with(prefix); });
}

/// Eight devices on their own link that share one 100-gigabit adapter: no node type of the
/// catalogue has less.
NodeSpec assumed_node(const DeviceSpec& device) {
  return {.name = {},
          .title = {},
          .device = device.name,
          .devices = 8,
          .intra_link = device.link,
          .inter_link = "ethernet-100g",
          .adapters_per_device = 0.125,
          .host_memory = std::nullopt};
}

Result<NodeSpec> node_of(const std::string& config_dir, const DeviceSpec& device,
                         const std::optional<std::string>& name) {
  if (name) {
    Result<NodeSpec> node = load_node(config_dir, *name);
    if (node && node->device != device.name) {
      return Error::invalid_argument("node", *name + ", a node with " + node->device,
                                     "a node type with " + device.name);
    }
    return node;
  }
  Result<std::vector<NodeSpec>> all = list_nodes(config_dir);
  if (!all) {
    return std::move(all).error();
  }
  std::vector<NodeSpec> nodes = std::move(all).value();
  std::erase_if(nodes, [&device](const NodeSpec& node) { return node.device != device.name; });
  std::ranges::stable_sort(nodes, {}, is_cloud);
  return nodes.empty() ? assumed_node(device) : std::move(nodes.front());
}

Seconds launch_time(const LaunchPerformance& launch, ir::KernelCalls calls) {
  switch (calls) {
    case ir::KernelCalls::kEager:
      return launch.eager;
    case ir::KernelCalls::kModules:
      return launch.module;
    case ir::KernelCalls::kCompiled:
      return launch.compiled;
  }
  return launch.eager;
}

}  // namespace

Result<Machine> load_machine(const std::string& config_dir, const DeviceSpec& device,
                             const std::optional<std::string>& node,
                             std::optional<DevicePerformance> own) {
  const Result<NodeSpec> found = node_of(config_dir, device, node);
  if (!found) {
    return found.error();
  }
  Result<DevicePerformance> performance =
      own ? std::move(*own) : performance_of(config_dir, device);
  if (!performance) {
    return std::move(performance).error();
  }
  Result<Topology> topology = topology_of(config_dir, *found);
  if (!topology) {
    return std::move(topology).error();
  }
  Machine machine{.performance = std::move(performance).value(),
                  .topology = std::move(topology).value(),
                  .node = found->name,
                  .note = {}};
  if (machine.node.empty()) {
    machine.note = "no node type with " + device.name + ": eight on " + device.link +
                   ", sharing one 100-gigabit adapter, are assumed";
  }
  return machine;
}

double taken_ratio(const Machine& machine) {
  return static_cast<double>(machine.topology.fabric.channels) /
         machine.performance.multiprocessors;
}

DevicePerformance performance_in(const Machine& machine, const ir::ParallelPlan& plan) {
  DevicePerformance performance = machine.performance;
  if (plan.world > 1) {
    performance.gemm.half = performance.gemm.together * performance.gemm.half;
    performance.gemm.fp8 = performance.gemm.together * performance.gemm.fp8;
  }
  if (ir::runtime_of(plan).has_wide_kernels(plan)) {
    performance.memory.elements = 0;
  }
  return performance;
}

PriceList prices_on(const Machine& machine, const ir::ParallelPlan& plan) {
  const LaunchPerformance& launch = machine.performance.launch;
  return {.time_of =
              [performance = performance_in(machine, plan), &machine](const ir::WorkShape& shape) {
                return work_time(performance, machine.topology, shape);
              },
          .launch = launch_time(launch, ir::runtime_of(plan).kernel_calls(plan)),
          .looped = std::max(launch.eager, machine.performance.gemm.series_call),
          .exchange = launch.exchange,
          .tensor = launch.tensor,
          .graph = launch.graph,
          .graphed = machine.graphed,
          .taken_ratio = taken_ratio(machine)};
}

}  // namespace headroom::cost
