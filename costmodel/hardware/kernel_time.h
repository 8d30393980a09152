#pragma once

#include "costmodel/hardware/performance.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"

namespace headroom::cost {

/// Time of one GEMM on the device, without the host's launch.
///
/// Model:   the best of a few tile shapes: waves of tiles over the multiprocessors, the last one
///          partly idle, k split where there are too few tiles; slower where rows in memory are no
///          multiple of 16 bytes; against the traffic of operands and result. Constants are fitted
///          (docs/time-model.md).
/// Shapes:  C[m, n] = A[m, k] B[k, n], `count` of them. Requires all positive.
/// Units:   seconds; at least `gemm.floor`.
[[nodiscard]] Seconds gemm_time(const DevicePerformance& device, const ir::GemmShape& shape);

/// Time of one fused attention kernel.
///
/// Model:   blocks of 128 queries (backward: keys) over the multiprocessors, each over the keys
///          that its queries see (causal, window); 4 D flops for each pair of a query and a key
///          forward, 10 D backward (Dao et al. 2022, arXiv:2205.14135, appendix B).
/// Shapes:  [batch, heads, queries, head_dim]. Requires all positive but `window`.
/// Units:   seconds; at least `attention.floor`.
[[nodiscard]] Seconds attention_time(const DevicePerformance& device,
                                     const ir::AttentionShape& shape);

/// Pairs of a query and a key that `shape` computes in one head. The last query is aligned with the
/// last key.
[[nodiscard]] double visible_pairs(const ir::AttentionShape& shape);

/// Bytes of device memory that `shape` reads and writes at least, each operand and result once.
[[nodiscard]] double moved_bytes(const ir::GemmShape& shape);
[[nodiscard]] double moved_bytes(const ir::AttentionShape& shape);

/// Time of kernels bound by memory. Each launch takes at least the floor. The bytes move at the
/// memory bandwidth, or at the cache's as far as one launch fits into it; elements that are handled
/// one by one count instead if they take longer. The elements of lists take additional time.
///
/// Units:   seconds. Requires launches >= 1, bytes >= 0.
[[nodiscard]] Seconds traffic_time(const DevicePerformance& device, const ir::TrafficShape& shape);

/// Time of one copy, or of work on the host.
///
/// Units:   seconds. Requires bytes >= 0.
[[nodiscard]] Seconds copy_time(const DevicePerformance& device, const ir::CopyShape& shape);

}  // namespace headroom::cost
