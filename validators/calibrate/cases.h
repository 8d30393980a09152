#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"
#include "validators/executor/device_abi.h"

namespace headroom::calibrate {

/// A matrix product, as the executor calls it. `shape.layout` decides which operands are
/// transposed.
struct GemmCase {
  ir::GemmShape shape;
  std::int32_t math = HEADROOM_MATH_EXACT;
  bool workspace = true;  ///< The library may use the workspace of the device.
};

/// The executor's own attention kernels, forward or backward.
struct AttentionCase {
  ir::AttentionShape shape;
};

/// Kernels that only move memory.
enum class TrafficCall : std::uint8_t { kCopy, kAdd, kCast, kNorm };
struct TrafficCase {
  TrafficCall call = TrafficCall::kAdd;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  ///< Bytes that one call reads and writes.
};

/// The shortest kernels, one after the other: the device's time from one to the next, or the host's
/// time to start one.
enum class LaunchSide : std::uint8_t { kDevice, kHost };
struct LaunchCase {
  LaunchSide side = LaunchSide::kDevice;
};

/// A copy between the host and the device.
struct CopyCase {
  ir::CopyShape shape;
  bool pinned = true;  ///< Page-locked host memory.
};

/// One thing that is measured.
struct Case {
  std::string name;  ///< "gemm bf16 TN 4096x4096x4096"; unique, and the same in every release.
  std::variant<GemmCase, AttentionCase, TrafficCase, LaunchCase, CopyCase> what;
};

/// Everything that `headroom calibrate` measures on a device, in the order in which it is measured.
///
/// @param cache  The last cache before the device's memory: chains of kernels over a quarter of it
///               are measured, too.
[[nodiscard]] std::vector<Case> all_cases(Bytes cache);

/// Bytes of device memory that the largest case needs.
[[nodiscard]] Bytes memory_of(const std::vector<Case>& cases);
/// Bytes of device memory that a case needs, each of its tensors rounded up to `kTensorAlignment`.
[[nodiscard]] Bytes memory_of(const Case& one);

/// Tensors begin at multiples of this, as the device interface wants it.
inline constexpr std::int64_t kTensorAlignment = 256;

}  // namespace headroom::calibrate
