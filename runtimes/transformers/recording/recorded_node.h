#pragma once

#include <memory>
#include <vector>

#include "runtimes/torch/record.h"
#include "runtimes/transformers/recording/operator_run.h"

namespace headroom::ir::transformers {

/// The backward node of a recorded operator. It is made before the operator allocates its outputs,
/// and keeps what autograd kept. Nothing, if no gradient can flow.
class RecordedNode {
 public:
  /// Tensors that the node refers to besides the operator's outputs.
  struct Operands {
    std::vector<torch::Tensor> inputs;
    std::vector<torch::Tensor> others;  ///< One per saved tensor: neither input nor output.
    torch::Tensor base;                 ///< The base of the view into which the operator writes.
  };
  RecordedNode(torch::Eager& eager, std::shared_ptr<const Replay> replay,
               const Instruction& instruction, const Operands& operands);

  /// Keeps outputs, and becomes their `grad_fn`.
  void finish(std::vector<torch::Tensor>& outputs);

 private:
  void save(std::size_t index, const torch::Tensor& tensor);

  torch::Eager& eager_;
  std::shared_ptr<const Replay> replay_;
  const Instruction& instruction_;
  const RecordedGradient* gradient_ = nullptr;
  std::unique_ptr<torch::Record> record_;
  std::uint64_t wanted_ = 0;    ///< Bit i: edge i needs a gradient.
  std::vector<int> positions_;  ///< The node's index of each saved tensor; -1: not kept.
  int saved_ = 0;
};

}  // namespace headroom::ir::transformers
