#pragma once

#include "costmodel/hardware/topology.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"

namespace headroom::cost {

/// Time of one collective operation once all of its ranks have started it.
///
/// Model:   the fastest of NCCL's algorithms: rings with each protocol, trees across nodes,
///          and the switch's own reduction (NVLS). Each takes a latency for its steps, plus the
///          bytes at the rate of the bottleneck: the fabric, or the adapters of the group's ranks
///          on a node.
/// Units:   `bytes` of the full buffer (for kAllToAll, kSend and kReceive: all that a rank sends,
///          its own share of an all-to-all included).
/// Ignores: traffic of other groups, except on the adapters and PCIe switches that they share by
///          layout.
/// Source:  NVIDIA/nccl 2.30.7, src/graph/tuning.cc (the same terms); figures inside a node fitted
///          to measurements (docs/time-model.md).
[[nodiscard]] Seconds collective_time(const Topology& topology, const ir::CollectiveShape& shape);

}  // namespace headroom::cost
