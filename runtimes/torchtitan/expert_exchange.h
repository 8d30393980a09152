#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"

namespace headroom::ir::torchtitan {

/// The all-to-alls of ExpertParallel, which bring rows to their experts and back.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/distributed/expert_parallel.py;
///         pytorch/pytorch 2.11 torch/csrc/distributed/c10d/Functional.cpp, AllToAllSingle.
class ExpertExchange {
 public:
  /// `stride`: between the ranks; those that share an expert's width lie in between.
  ExpertExchange(torch::Eager& eager, std::int64_t ranks, std::int64_t stride)
      : eager_(eager), ranks_(ranks), stride_(stride) {}

  [[nodiscard]] std::int64_t ranks() const { return ranks_; }
  /// How many rows come for each expert, of which the host is told sums. `counts`: [E].
  [[nodiscard]] torch::Tensor counts(const torch::Tensor& counts);
  /// As many rows come as go; backward is the same.
  [[nodiscard]] torch::Tensor all_to_all(const torch::Tensor& rows);
  /// The input of the last exchange stays until somebody reads its output.
  void hold(const torch::Tensor& input) { input_ = input; }
  void wait() { input_.reset(); }

 private:
  torch::Eager& eager_;
  std::int64_t ranks_;
  std::int64_t stride_;
  torch::Tensor input_;
};

}  // namespace headroom::ir::torchtitan
