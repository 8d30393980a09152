#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "runtimes/torch/record.h"
#include "runtimes/transformers/recording/prepared_code.h"

namespace headroom::ir::transformers {

/// The backward node of a recorded operator. It is made before the operator allocates its outputs,
/// and keeps what autograd kept. Nothing, if no gradient can flow.
class RecordedNode {
 public:
  /// Tensors that the node refers to besides the operator's outputs.
  struct Operands {
    std::span<const torch::Tensor> inputs;
    /// One per saved tensor that is neither input nor output; empty if there is none.
    std::span<const torch::Tensor> others;
    torch::Tensor base;  ///< The base of the view into which the operator writes.
  };
  /// `instruction` lives as long as the graph.
  RecordedNode(torch::Eager& eager, const PreparedInstruction& instruction,
               const Operands& operands);

  /// Keeps outputs, and becomes their `grad_fn`.
  void finish(std::span<torch::Tensor> outputs);

 private:
  /// Whether the node keeps saved tensor `index`, which is noted.
  bool keeps(std::size_t index, const torch::Tensor& tensor);

  const PreparedInstruction& instruction_;
  std::optional<torch::Record> record_;
  std::uint64_t wanted_ = 0;  ///< The bits (`edge_bit`) of edges that need a gradient.
  std::uint64_t kept_ = 0;    ///< Bit i: the node keeps saved tensor i.
};

}  // namespace headroom::ir::transformers
