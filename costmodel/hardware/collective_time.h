#pragma once

#include "costmodel/hardware/topology.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"

namespace headroom::cost {

/// Time of one collective operation once all of its ranks are there.
///
/// Model:   the quickest of what NCCL can choose from: rings with each protocol, trees across
/// nodes,
///          and the switch's own reduction (NVLS), each a latency for its steps and the bytes at
///          the rate of the narrowest place it passes: the fabric, or the adapters of its ranks on
///          a node.
/// Units:   `bytes` of the full buffer (for kAllToAll, kSend and kReceive: what a rank sends in
/// all,
///          its own share of an all-to-all included).
/// Ignores: other groups' traffic, but for adapters and PCIe switches that they share by layout.
/// Source:  NVIDIA/nccl 2.30.7, src/graph/tuning.cc (the same terms); figures inside a node fitted
///          to measurements (docs/time-model.md).
[[nodiscard]] Seconds collective_time(const Topology& topology, const ir::CollectiveShape& shape);

}  // namespace headroom::cost
