#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"
#include "runtimes/torchtitan/operator_cache.h"

namespace headroom::ir::torchtitan {

/// What DTensor allocates on one rank of the tensor-parallel mesh when torchtitan's plan
/// redistributes activations. With one rank nothing is redistributed.
/// Source: pytorch/pytorch 2.11 torch/distributed/tensor/_redistribute.py, placement_types.py;
///         torch/distributed/_functional_collectives.py.
class TensorMesh {
 public:
  /// `whole_gradients`: micro-batches accumulate the whole gradient of a table that is sharded by
  /// rows, before this rank's rows are sliced out.
  TensorMesh(torch::Eager& eager, std::int64_t ranks, bool whole_gradients)
      : eager_(eager), ranks_(ranks), whole_gradients_(whole_gradients) {}

  [[nodiscard]] std::int64_t ranks() const { return ranks_; }

  /// Shard(1) to Replicate: [B, S/T, H] to [B, S, H]; backward reduce-scatters.
  [[nodiscard]] torch::Tensor gather_sequence(const torch::Tensor& local);
  /// The same for a local tensor (use_local_input). Each rank is assumed to have the whole
  /// gradient, and backward slices its part out.
  [[nodiscard]] torch::Tensor gather_local_sequence(const torch::Tensor& local);
  /// A tensor that is the same on all ranks and whose gradients are all-reduced.
  [[nodiscard]] torch::Tensor sum_gradients(const torch::Tensor& whole);
  /// Partial to Shard(1): [B, S, H] to [B, S/T, H]; backward all-gathers. `cache` may be null.
  [[nodiscard]] torch::Tensor scatter_sequence(const torch::Tensor& partial, OperatorCache* cache);
  /// Shard(-1) to Replicate: [B, S, V/T] to [B, S, V]; backward slices this rank's columns out.
  [[nodiscard]] torch::Tensor gather_columns(const torch::Tensor& local);
  /// Looks up ids [B, S] in a table that is sharded by rows, `weight` [V/T, H]. The result [B, S,
  /// H] is a partial sum. Backward makes the whole table's gradient and keeps this rank's rows.
  [[nodiscard]] torch::Tensor embedding(const torch::Tensor& weight, const torch::Tensor& ids);

  /// Called when somebody reads the output of the last collective; frees its input.
  void wait() {
    input_.reset();
    held_.reset();
  }
  /// Keeps the source of the last collective's input alive as long as the input.
  void hold(const torch::Tensor& source) { held_ = ranks_ > 1 ? source : torch::Tensor{}; }

 private:
  /// All-gathers a tensor of shape `whole` along `dim`.
  [[nodiscard]] torch::Tensor gathered(const torch::Shape& whole, DType dtype, int dim);
  torch::Tensor scatter(const torch::Tensor& partial, OperatorCache* cache);
  void run(CollectiveKind kind, const torch::Shape& whole, DType dtype);

  torch::Eager& eager_;
  std::int64_t ranks_;
  bool whole_gradients_;
  torch::Tensor input_;  ///< Input of the last collective, until somebody waits for its output.
  torch::Tensor held_;
};

/// Finds the ids among [N] that this rank's rows of a table hold, and their local ids. Returns the
/// mask.
/// Source: placement_types.py, _MaskPartial and _mask_tensor.
[[nodiscard]] torch::Tensor mask_ids(torch::Eager& eager, std::int64_t count,
                                     torch::Tensor& masked);

}  // namespace headroom::ir::torchtitan
