#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "model_ir/runtime/torch/tensor.h"

namespace headroom::ir::torch {

/// Unwinds a recomputation once the last saved tensor has been rebuilt ("early stop"). Mirrors the
/// exception that torch.utils.checkpoint raises; caught by `CheckpointFrame` alone.
struct StopRecomputation {};

/// One region under torch.utils.checkpoint(use_reentrant=False): what its operators save is
/// dropped, and rebuilt by running the region again when backward first asks for any of it.
/// Source: pytorch/pytorch torch/utils/checkpoint.py, _CheckpointFrame and its hooks.
class CheckpointFrame : public std::enable_shared_from_this<CheckpointFrame> {
 public:
  /// `input`: the region's argument, kept alive until every saved slot has been let go.
  CheckpointFrame(Tensor input, std::function<void(Eager&, const Tensor&)> region);

  /// An operator saves `tensor`: counts it in the first run, keeps it in the second.
  std::size_t pack(Eager& eager, const Tensor& tensor);
  [[nodiscard]] Tensor unpack(Eager& eager, std::size_t slot);
  void forget(std::size_t slot);

 private:
  struct Slot {
    Tensor tensor;
    bool wanted = true;
  };
  void recompute(Eager& eager);

  Tensor input_;
  std::function<void(Eager&, const Tensor&)> region_;
  std::vector<Slot> slots_;
  bool recomputing_ = false;
  bool recomputed_ = false;
  std::size_t next_ = 0;
};

/// Runs `region` on `input` as torch.utils.checkpoint(use_reentrant=False) would and returns its
/// output. Without gradients it simply runs.
[[nodiscard]] Tensor checkpoint(Eager& eager, const Tensor& input,
                                std::function<Tensor(Eager&, const Tensor&)> region);

/// The same with use_reentrant=True: forward under no_grad; backward runs the region again from a
/// detached input and calls backward inside backward.
[[nodiscard]] Tensor checkpoint_reentrant(Eager& eager, const Tensor& input,
                                          std::function<Tensor(Eager&, const Tensor&)> region);

}  // namespace headroom::ir::torch
