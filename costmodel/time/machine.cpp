#include "costmodel/time/machine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "costmodel/hardware/host.h"
#include "costmodel/hardware/work_time.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

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

/// CPU Adam moves 117 GB/s in the host of a DGX-2, whose two Xeon Platinum 8168 have 12 channels of
/// 2666 MT/s: 45.7 % of 255.9 GB/s. PyTorch's own CPU step reads and writes no less.
/// Source: Ren et al. 2021 (arXiv:2101.06840), table 4: 10 billion parameters in 2.57 s, 30 bytes
///         each; NVIDIA DGX-2 datasheet; Intel's specification of the processor.
constexpr double kShareOfMemory = 117.0 / 255.9;

void share_host(const HostSpec& host, std::int64_t world, HostPerformance& performance) {
  const double part = 1.0 / static_cast<double>(std::clamp<std::int64_t>(world, 1, host.devices));
  if (host.memory_bandwidth > BytesPerSecond{0}) {
    performance.work = kShareOfMemory * part * host.memory_bandwidth;
  } else {
    performance.work = part * performance.work;
  }
  performance.nvme = part * host.nvme_rate.value_or(performance.nvme);
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
  // A device that was placed in a node knows its name; only that node's file is read then.
  const bool placed = !node && device.host && !device.host->node.empty();
  const Result<std::optional<NodeSpec>> named =
      find_node(config_dir, device, placed ? device.host->node : node);
  if (!named) {
    return named.error();
  }
  const NodeSpec found = named->value_or(assumed_node(device));
  Result<DevicePerformance> performance =
      own ? std::move(*own) : performance_of(config_dir, device);
  if (!performance) {
    return std::move(performance).error();
  }
  Result<Topology> topology = topology_of(config_dir, found);
  if (!topology) {
    return std::move(topology).error();
  }
  Machine machine{.performance = std::move(performance).value(),
                  .topology = std::move(topology).value(),
                  .node = found.name,
                  .note = {},
                  .host = device.host};
  if (machine.node.empty()) {
    machine.note = "no node of the catalogue has " + device.name +
                   ": eight GPUs are assumed, linked by " + device.link +
                   ", that share one 100-gigabit network adapter";
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
  if (machine.host) {
    share_host(*machine.host, plan.world, performance.host);
  }
  performance.memory.wide = ir::runtime_of(plan).has_wide_kernels(plan);
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
