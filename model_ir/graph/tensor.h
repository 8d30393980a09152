#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_ir/spec/dtype.h"

namespace headroom::ir {

/// Index of a tensor of a `Graph`; stable, since graphs only grow.
enum class TensorId : std::uint32_t {};
/// Index of an operator of a `Graph`; stable, and a topological order.
enum class NodeId : std::uint32_t {};

[[nodiscard]] constexpr std::size_t index_of(TensorId id) {
  return static_cast<std::size_t>(id);
}
[[nodiscard]] constexpr std::size_t index_of(NodeId id) {
  return static_cast<std::size_t>(id);
}

/// What a tensor of the model is. Frameworks add gradients and states later.
enum class ValueKind : std::uint8_t { kParameter, kActivation, kInput };

/// One tensor of the model graph.
struct TensorInfo {
  std::string name{};  ///< Parameters: the name in the checkpoint.
  ValueKind kind = ValueKind::kActivation;
  std::vector<std::int64_t> dims{};  ///< Outermost first.
  std::int32_t layer = -1;           ///< -1: outside the layers.
  /// A parameter that the modelling code registers but no operator reads, so that it never gets a
  /// gradient (cls.predictions.bias of a BERT with an untied head).
  bool unused = false;

  [[nodiscard]] std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t dim : dims) {
      product *= dim;
    }
    return product;
  }
};

}  // namespace headroom::ir
