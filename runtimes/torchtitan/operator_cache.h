#pragma once

#include <cstdint>
#include <deque>

#include "runtimes/torch/eager.h"

namespace headroom::ir::torchtitan {

/// Selective checkpointing by operators. The first run of a region keeps the outputs of the
/// operators on torchtitan's list. The recomputation returns them instead of computing them. Of the
/// matrix products, the first, the third and so on are kept.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/distributed/activation_checkpoint.py, _apply_op_sac;
///         pytorch/pytorch 2.11 torch/utils/checkpoint.py, create_selective_checkpoint_contexts.
class OperatorCache {
 public:
  /// Called when the region begins, for the first time or again.
  void begin(bool again) {
    again_ = again;
    products_ = 0;
  }
  [[nodiscard]] bool again() const { return again_; }
  /// Called for each matrix product; returns whether it is kept.
  [[nodiscard]] bool wants_product() { return ++products_ % 2 == 1; }

  void keep(torch::Eager& eager, const torch::Tensor& output) {
    kept_.push_back(eager.alias(output, output.shape(), false));
    kept_.back()->layout = output->layout;
    eager.mark_saved(output);
  }
  /// Returns the oldest kept output and removes it.
  [[nodiscard]] torch::Tensor take() {
    torch::Tensor output = kept_.front();
    kept_.pop_front();
    return output;
  }

 private:
  bool again_ = false;
  std::int64_t products_ = 0;
  std::deque<torch::Tensor> kept_;
};

}  // namespace headroom::ir::torchtitan
