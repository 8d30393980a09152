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
  RecordedNode(torch::Eager& eager, std::shared_ptr<const Replay> replay,
               const Instruction& instruction, const std::vector<torch::Tensor>& inputs);

  /// Keeps outputs, and becomes their `grad_fn`.
  void finish(std::vector<torch::Tensor>& outputs);

 private:
  void save(bool outputs, const std::vector<torch::Tensor>& tensors);

  torch::Eager& eager_;
  std::shared_ptr<const Replay> replay_;
  const Instruction& instruction_;
  const RecordedGradient* gradient_ = nullptr;
  std::unique_ptr<torch::Record> record_;
  std::uint64_t wanted_ = 0;    ///< Bit i: edge i needs a gradient.
  std::vector<int> positions_;  ///< Where the node has each saved tensor; -1: not kept.
  int saved_ = 0;
};

}  // namespace headroom::ir::transformers
