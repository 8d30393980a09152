#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"

namespace headroom::ir::torchtitan {

/// The all-to-alls of ExpertParallel, which send rows to their experts and back.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/distributed/expert_parallel.py; pytorch/pytorch 2.11
///         torch/csrc/distributed/c10d/Functional.cpp, AllToAllSingle.
class ExpertExchange {
 public:
  /// `stride`: distance between the ranks. Expert-tensor-parallel ranks lie in between.
  ExpertExchange(torch::Eager& eager, std::int64_t ranks, std::int64_t stride)
      : eager_(eager), ranks_(ranks), stride_(stride) {}

  [[nodiscard]] std::int64_t ranks() const { return ranks_; }
  /// The number of received rows for each expert. Sums of them are copied to the host. `counts`:
  /// [E].
  [[nodiscard]] torch::Tensor counts(const torch::Tensor& counts);
  /// As many rows are received as sent; backward is the same.
  [[nodiscard]] torch::Tensor all_to_all(const torch::Tensor& rows);
  /// Keeps the input of the last exchange until somebody reads its output.
  void hold(const torch::Tensor& input) { input_ = input; }
  void wait() { input_.reset(); }

 private:
  torch::Eager& eager_;
  std::int64_t ranks_;
  std::int64_t stride_;
  torch::Tensor input_;
};

}  // namespace headroom::ir::torchtitan
