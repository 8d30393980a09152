#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "runtimes/torch/node.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// Unwinds a recomputation once the last saved tensor has been rebuilt ("early stop"). Mirrors the
/// exception that torch.utils.checkpoint raises; only `CheckpointFrame` catches it.
struct StopRecomputation {};

/// One region under torch.utils.checkpoint(use_reentrant=False). Tensors that its operators save
/// are dropped and rebuilt: the region runs again when backward first needs one of them.
/// Source: pytorch/pytorch torch/utils/checkpoint.py, _CheckpointFrame and its hooks.
class CheckpointFrame final : public SavedTensorHooks {
 public:
  /// `inputs`: the region's arguments, kept alive until every saved slot has been released.
  /// `whole`: recomputation runs the whole region instead of ending with the last saved tensor
  /// (early_stop=False).
  CheckpointFrame(std::vector<Tensor> inputs,
                  std::function<void(Eager&, const std::vector<Tensor>&)> region,
                  bool whole = false);

  /// Called when an operator saves `tensor`. The first run counts it; the recomputation stores it
  /// and returns it as `kept`, because the recomputed operators have their own graph, which holds
  /// what it saves.
  std::size_t pack(Eager& eager, const Tensor& tensor, Tensor& kept) override;
  [[nodiscard]] Tensor unpack(Eager& eager, std::size_t slot) override;
  void forget(std::size_t slot) override;
  /// Moves the arguments to the host; they come back when the region is recomputed.
  void offload();

 private:
  struct Slot {
    Tensor tensor;
    bool wanted = true;
  };
  void recompute(Eager& eager);

  struct OffloadedInput {
    std::size_t index;
    Shape shape;
    DType dtype;
    bool requires_grad;
  };
  std::vector<Tensor> inputs_;
  std::vector<OffloadedInput> offloaded_;
  std::function<void(Eager&, const std::vector<Tensor>&)> region_;
  std::vector<Slot> slots_;
  bool whole_;
  bool recomputing_ = false;
  bool recomputed_ = false;
  std::size_t next_ = 0;
};

/// Arguments of a forward's checkpointed regions on their way to the host. The last few stay on the
/// device until backward.
/// Source: pytorch/torchtune torchtune/training/_activation_offloading.py, OffloadActivations
///         (max_fwd_stash_size).
/// Ignores: the stream of the copies, and thus the memory pool of the tensors that come back.
class OffloadStash {
 public:
  /// Called for a region whose arguments are being packed.
  void push(std::shared_ptr<CheckpointFrame> frame);
  /// Tensors packed after the regions take the last places.
  void flush();

 private:
  std::deque<std::shared_ptr<CheckpointFrame>> frames_;
};

/// Runs `region` on `input` as torch.utils.checkpoint(use_reentrant=False) does and returns its
/// output. If gradients are disabled, it only runs the region. `stash`: for offloaded arguments;
/// otherwise null.
[[nodiscard]] Tensor checkpoint(Eager& eager, const Tensor& input,
                                std::function<Tensor(Eager&, const Tensor&)> region,
                                OffloadStash* stash = nullptr);

/// How a region of several arguments and results runs.
enum class RegionForm : std::uint8_t {
  kKept,             ///< Without checkpointing.
  kRecomputed,       ///< As `checkpoint` does.
  kRecomputedWhole,  ///< As `checkpoint` does with early_stop=False.
  /// As torch.utils.checkpoint(use_reentrant=True): forward runs under no_grad; backward runs the
  /// region again from a detached input and calls backward inside backward.
  kReentrant,
};

using Region = std::function<std::vector<Tensor>(Eager&, const std::vector<Tensor>&)>;

/// The same for a region of several arguments and results, any of which may be undefined. With
/// `kReentrant`, a result that is an argument is returned as a view of it, and results without a
/// gradient get one of zeros. Arguments are freed once backward has used them; tensors that
/// `region` captures (keyword arguments) live as long as the graph.
[[nodiscard]] std::vector<Tensor> run_region(Eager& eager, const std::vector<Tensor>& inputs,
                                             const Region& region, RegionForm form,
                                             OffloadStash* stash = nullptr);

}  // namespace headroom::ir::torch
