#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model_ir/graph/op.h"
#include "model_ir/graph/tensor.h"

namespace headroom::ir {

/// Extent of one micro-batch.
struct BatchShape {
  std::int64_t batch = 1;     ///< B
  std::int64_t sequence = 1;  ///< S
  friend bool operator==(const BatchShape&, const BatchShape&) = default;
};

/// The forward pass of one micro-batch: operators joined by the tensors that flow between them.
/// Append-only; `NodeId` and `TensorId` are stable indices, and operators are added in an order in
/// which they can run.
class Graph {
 public:
  TensorId add_tensor(TensorInfo info);
  /// Adds `op`; every input must have a producer or be an input or parameter.
  NodeId add_op(Op op);
  void begin_layer(std::int32_t layer, TensorId input);
  void end_layer(TensorId output);

  [[nodiscard]] const TensorInfo& tensor(TensorId id) const;
  [[nodiscard]] const Op& op(NodeId id) const;
  [[nodiscard]] std::size_t tensor_count() const;
  [[nodiscard]] std::size_t op_count() const;
  [[nodiscard]] std::span<const LayerRange> layers() const;
  /// Parameters in the order in which the modelling code registers them.
  [[nodiscard]] std::span<const TensorId> parameters() const;
  /// The last operator that reads `id`; the producer itself if none does.
  [[nodiscard]] NodeId last_reader(TensorId id) const;

 private:
  std::vector<Op> ops_;
  std::vector<TensorInfo> tensors_;
  std::vector<NodeId> producer_;     ///< The producer of each tensor.
  std::vector<NodeId> last_reader_;  ///< The last reader of each tensor.
  std::vector<LayerRange> layers_;
  std::vector<TensorId> parameters_;
  bool layer_open_ = false;
};

/// Elements of all parameters, tied ones once.
[[nodiscard]] std::int64_t parameter_count(const Graph& graph);

}  // namespace headroom::ir
