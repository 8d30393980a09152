#pragma once

#include <optional>
#include <string>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/hardware/performance.h"
#include "costmodel/hardware/topology.h"
#include "costmodel/time/program_time.h"
#include "model_ir/base/result.h"

namespace headroom::cost {

/// The hardware that a step runs on: devices of one kind and the links between them.
struct Machine {
  DevicePerformance performance;
  Topology topology;
  std::string node;  ///< Catalogue name of the node type; empty if the catalogue has none.
  std::string note;  ///< What is assumed about the machine; empty if nothing is.
  /// The host, if its own figures replace those of `performance` (`performance_in`).
  std::optional<HostSpec> host{};
  std::vector<std::string> graphed{};  ///< Operators of layers that the run has in CUDA graphs.
};

/// The machine that contains `device`.
///
/// Model:   the node type called `node`, or else the first of the catalogue with such devices, a
///          vendor's own system before a cloud's. If no node type has such devices: eight of them
///          on the device's own link, with the slowest network of the catalogue's nodes; `note`
///          says so. `own`: measured performance of the device, which replaces the catalogue's
///          figures.
/// Errors:  those of `load_node`, `performance_of` and `topology_of`; kInvalidArgument for a node
///          with other devices.
[[nodiscard]] Result<Machine> load_machine(const std::string& config_dir, const DeviceSpec& device,
                                           const std::optional<std::string>& node = std::nullopt,
                                           std::optional<DevicePerformance> own = std::nullopt);

/// The share of the multiprocessors that a running collective takes from products.
[[nodiscard]] double taken_ratio(const Machine& machine);

/// Performance of a device of `machine` in a run of `plan`. If there are other devices, products
/// run at the rate that they have next to them. The ranks of a node share its memory and drives:
/// if `machine.host` is set, each has its part of what the host's memory channels and drives do.
/// Kernels of Transformer Engine and generated kernels
/// use vectorised reads.
[[nodiscard]] DevicePerformance performance_in(const Machine& machine,
                                               const ir::ParallelPlan& plan);

/// Costs of work on `machine`. Kernels are launched by eager PyTorch or, if the plan compiles its
/// blocks, by the code that Inductor generates.
[[nodiscard]] PriceList prices_on(const Machine& machine, const ir::ParallelPlan& plan);

}  // namespace headroom::cost
