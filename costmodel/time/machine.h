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

/// What a step runs on: devices of one kind, and what joins them.
struct Machine {
  DevicePerformance performance;
  Topology topology;
  std::string node;  ///< Catalogue name of the node type; empty if the catalogue has none.
  std::string note;  ///< What is assumed about the machine; empty if nothing is.
  std::vector<std::string> graphed{};  ///< Operators of layers that a run has in CUDA graphs.
};

/// The machine that `device` stands in.
///
/// Model:   the node type called `node`, or else the first of the catalogue with such devices, a
///          vendor's own system before a cloud's. For a device of no node type: eight of them on
///          the device's own link, with the slowest network of the catalogue's nodes, which `note`
///          says. `own`: what the device achieves, in place of the catalogue's figures.
/// Errors:  those of `load_node`, `performance_of` and `topology_of`; kInvalidArgument for a node
///          with other devices.
[[nodiscard]] Result<Machine> load_machine(const std::string& config_dir, const DeviceSpec& device,
                                           const std::optional<std::string>& node = std::nullopt,
                                           std::optional<DevicePerformance> own = std::nullopt);

/// Share of the multiprocessors that a collective takes from products meanwhile.
[[nodiscard]] double taken_ratio(const Machine& machine);

/// What a device of `machine` achieves in a run of `plan`: products at the rate beside other
/// devices where there are any; kernels of Transformer Engine and generated ones read as wide as
/// memory allows.
[[nodiscard]] DevicePerformance performance_in(const Machine& machine,
                                               const ir::ParallelPlan& plan);

/// What work costs on `machine`, each kernel launched by eager PyTorch or, of a plan with compiled
/// blocks, by what Inductor has generated.
[[nodiscard]] PriceList prices_on(const Machine& machine, const ir::ParallelPlan& plan);

}  // namespace headroom::cost
