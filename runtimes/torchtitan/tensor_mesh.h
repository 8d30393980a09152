#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"
#include "runtimes/torchtitan/operator_cache.h"

namespace headroom::ir::torchtitan {

/// What DTensor allocates on one rank of the tensor-parallel mesh, where torchtitan's plan moves
/// activations between its layouts. With one rank nothing moves.
/// Source: pytorch/pytorch 2.11 torch/distributed/tensor/_redistribute.py, placement_types.py;
///         torch/distributed/_functional_collectives.py.
class TensorMesh {
 public:
  /// `whole_gradients`: micro-batches add up the gradient of a table sharded by rows before this
  /// rank's rows are cut out.
  TensorMesh(torch::Eager& eager, std::int64_t ranks, bool whole_gradients)
      : eager_(eager), ranks_(ranks), whole_gradients_(whole_gradients) {}

  [[nodiscard]] std::int64_t ranks() const { return ranks_; }

  /// Shard(1) to Replicate: [B, S/T, H] to [B, S, H]; backward reduces and scatters.
  [[nodiscard]] torch::Tensor gather_sequence(const torch::Tensor& local);
  /// The same of a local tensor (use_local_input): each rank is taken to have the whole gradient,
  /// of which backward cuts its part out.
  [[nodiscard]] torch::Tensor gather_local_sequence(const torch::Tensor& local);
  /// A tensor that all ranks have alike, and whose gradients they add up.
  [[nodiscard]] torch::Tensor sum_gradients(const torch::Tensor& whole);
  /// Partial to Shard(1): [B, S, H] to [B, S/T, H]; backward gathers. `cache` may be null.
  [[nodiscard]] torch::Tensor scatter_sequence(const torch::Tensor& partial, OperatorCache* cache);
  /// Shard(-1) to Replicate: [B, S, V/T] to [B, S, V]; backward cuts this rank's columns out.
  [[nodiscard]] torch::Tensor gather_columns(const torch::Tensor& local);
  /// A table sharded by rows, `weight` [V/T, H], looked up with ids [B, S]: [B, S, H], a part of a
  /// sum. Backward makes the whole table's gradient and keeps this rank's rows.
  [[nodiscard]] torch::Tensor embedding(const torch::Tensor& weight, const torch::Tensor& ids);

  /// Somebody reads the output of the last collective, whose input may go.
  void wait() {
    input_.reset();
    held_.reset();
  }
  /// What the last collective's input was made of stays as long as that.
  void hold(const torch::Tensor& source) { held_ = ranks_ > 1 ? source : torch::Tensor{}; }

 private:
  /// All-gather of a tensor of `whole` elements along `dim`.
  [[nodiscard]] torch::Tensor gathered(const torch::Shape& whole, DType dtype, int dim);
  torch::Tensor scatter(const torch::Tensor& partial, OperatorCache* cache);
  void run(CollectiveKind kind, const torch::Shape& whole, DType dtype);

  torch::Eager& eager_;
  std::int64_t ranks_;
  bool whole_gradients_;
  torch::Tensor input_;  ///< Of the last collective, until somebody waits for its output.
  torch::Tensor held_;
};

/// Which ids [N] this rank's rows of a table answer, and the ids within them. Gives their mask.
/// Source: placement_types.py, _MaskPartial and _mask_tensor.
[[nodiscard]] torch::Tensor mask_ids(torch::Eager& eager, std::int64_t count,
                                     torch::Tensor& masked);

}  // namespace headroom::ir::torchtitan
