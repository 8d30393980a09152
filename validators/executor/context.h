#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "validators/executor/device.h"
#include "validators/executor/group.h"
#include "validators/executor/memory.h"
#include "validators/executor/tensor.h"

namespace headroom::exec {

/// Element types of a run.
struct Types {
  ir::DType parameter = ir::DType::kFp32;
  ir::DType compute = ir::DType::kFp32;   ///< Type of activations and of operands of products.
  ir::DType gradient = ir::DType::kFp32;  ///< Type of the gradients of parameters.
  ir::DType state = ir::DType::kFp32;  ///< Type of both moments; kUInt8: 8-bit blocks with scales.
  bool master = false;                 ///< A copy of the parameters in `stat`.
  HeadroomMath math = HEADROOM_MATH_EXACT;
  /// Products of the layers' linear operators take operands in 8 bits, each tensor with a scale
  /// that is computed anew.
  bool fp8_products = false;
  [[nodiscard]] ir::DType stat() const { return stat_type(compute); }
  friend bool operator==(const Types&, const Types&) = default;
};

/// The groups that a rank belongs to.
struct Groups {
  std::unique_ptr<Group> tensor;
  std::unique_ptr<Group> data;
  std::unique_ptr<Group> pipeline;  ///< Its ranks are the stages.
};

/// Bytes of page-locked memory through which small results come to the host.
inline constexpr std::int64_t kHostScratchBytes = 64 * 1024;

/// The device, memory and settings that every operator of a rank works with.
struct Context {
  Device& device;
  Memory& memory;
  Groups& groups;
  Types types;
  Tensor workspace;                   ///< Buffer for products (HeadroomOpen).
  std::byte* host_scratch = nullptr;  ///< Page-locked, kHostScratchBytes.
  /// Tensor-parallel ranks share the tokens of everything that is not divided among them.
  bool sequence_parallel = false;
  int layer = -1;         ///< Layer whose operators run; -1: none.
  bool backward = false;  ///< Whether they belong to a backward pass.

  /// A new tensor. Its contents are not said.
  [[nodiscard]] Tensor make(std::int64_t rows, std::int64_t columns, ir::DType type,
                            ir::TensorRole role) const;
  /// A new tensor of the compute type: an activation in forward, a temporary in backward.
  [[nodiscard]] Tensor make(std::int64_t rows, std::int64_t columns) const;
  [[nodiscard]] Tensor zeros(std::int64_t rows, std::int64_t columns, ir::DType type,
                             ir::TensorRole role) const;
  void clear(const Tensor& tensor) const;
  /// Copies within the device; both have as many bytes.
  void copy(const Tensor& to, const Tensor& from) const;
  /// Waits for the device and reads a small tensor, of at most kHostScratchBytes. Zeros if the
  /// device has failed.
  [[nodiscard]] const std::byte* read(const Tensor& tensor) const;
  /// Copies `bytes` of the host, at most kHostScratchBytes, to a tensor and waits for the copy.
  void write(const Tensor& tensor, const void* bytes) const;
  /// Names the operator that allocates from now on.
  void begin(std::string_view operation) const;
};

}  // namespace headroom::exec
